//! A very small assembler: bytes, forward labels, and notes for the unwinder.
//!
//! It knows nothing of system calls. Displacements are 32 bits wide: the code is written once and
//! never searched, so that choosing short forms would save memory nobody misses. One jump has only
//! a short form, that on rcx, which is there because it neither reads nor changes a flag.

/// A place in the code that jumps may name before it is reached.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

/// How wide a field that waits for a label is.
#[derive(Clone, Copy)]
enum Width {
    Short,
    Near,
}

/// Condition codes, as the second byte of `jcc rel32` (source: Intel SDM, vol. 2, Jcc).
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum When {
    /// ZF = 1.
    Zero = 0x84,
    /// ZF = 0.
    NotZero = 0x85,
}

/// Code that will run at a known address. It is written where it will run: into memory of its
/// own first, it would cost twice the pages at each start of a program.
pub(super) struct Assembler<'a> {
    base: u64,
    room: &'a mut [u8],
    /// Bytes written, or that would have been if there had been room.
    length: usize,
    labels: Vec<Option<usize>>,
    /// Fields that wait for a label: where, and which.
    waiting: Vec<(usize, Label, Width)>,
}

impl<'a> Assembler<'a> {
    /// Begins code at `base`, which is where `room` begins.
    pub fn new(base: u64, room: &'a mut [u8]) -> Assembler<'a> {
        Assembler { base, room, length: 0, labels: Vec::new(), waiting: Vec::new() }
    }

    /// The address of the next instruction.
    pub fn here(&self) -> u64 {
        self.base + self.length as u64
    }

    /// Appends machine code.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(place) = self.room.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
        }
        self.length = end;
    }

    /// Adds to a 32-bit displacement already written: code has moved, its target has not.
    pub fn correct(&mut self, field_at: u64, by: u64) {
        if let Some(field) = self.field((field_at - self.base) as usize) {
            *field = i32::from_le_bytes(*field).wrapping_add(by as i32).to_le_bytes();
        }
    }

    /// Begins the next instruction on a line of its own, as jump targets like it.
    pub fn align(&mut self) {
        while self.here() % 16 != 0 {
            self.bytes(&[0xcc]);
        }
    }

    /// A label yet without a place.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Gives a label its place: here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.length);
    }

    /// `jmp` to an address.
    pub fn jump(&mut self, to: u64) {
        self.bytes(&[0xe9]);
        self.distance(to);
    }

    /// `call` of an address.
    pub fn call(&mut self, to: u64) {
        self.bytes(&[0xe8]);
        self.distance(to);
    }

    /// Conditional jump to a label.
    pub fn jump_if(&mut self, when: When, to: Label) {
        self.bytes(&[0x0f, when as u8]);
        self.waiting.push((self.length, to, Width::Near));
        self.bytes(&[0; 4]);
    }

    /// Jump to a label no further than 127 bytes away if rcx is zero. Flags are kept.
    pub fn jump_if_rcx_zero(&mut self, to: Label) {
        self.bytes(&[0xe3]); // jrcxz rel8
        self.waiting.push((self.length, to, Width::Short));
        self.bytes(&[0]);
    }

    /// Unconditional jump to a label.
    pub fn jump_to(&mut self, to: Label) {
        self.bytes(&[0xe9]);
        self.waiting.push((self.length, to, Width::Near));
        self.bytes(&[0; 4]);
    }

    /// Finishes the code; how long it is, or would have been; `None` where a short jump does not
    /// reach. Labels that were never placed keep a distance of zero.
    pub fn finish(mut self) -> Option<usize> {
        for (at, label, width) in std::mem::take(&mut self.waiting) {
            let Some(to) = self.labels[label.0] else { continue };
            let distance = to as i64 - at as i64;
            match width {
                Width::Near => {
                    if let Some(field) = self.field(at) {
                        *field = ((distance - 4) as i32).to_le_bytes();
                    }
                }
                Width::Short => {
                    let short = i8::try_from(distance - 1).ok()?;
                    if let Some(field) = self.room.get_mut(at) {
                        *field = short as u8;
                    }
                }
            }
        }
        Some(self.length)
    }

    /// Four bytes that have been written.
    fn field(&mut self, at: usize) -> Option<&mut [u8; 4]> {
        self.room.get_mut(at..)?.first_chunk_mut()
    }

    fn distance(&mut self, to: u64) {
        let field = relative(to, self.here() + 4);
        self.bytes(&field);
    }
}

/// `jmp` at `from` to `to`, which must be within reach.
pub(super) fn jump(from: u64, to: u64) -> [u8; 5] {
    let [a, b, c, d] = relative(to, from + 5);
    [0xe9, a, b, c, d]
}

fn relative(to: u64, after: u64) -> [u8; 4] {
    (to.wrapping_sub(after) as i32).to_le_bytes()
}
