//! A very small assembler: bytes, forward labels, and notes for the unwinder.
//!
//! It knows nothing of system calls. Displacements are always 32 bits wide: the code is written
//! once and never searched, so that choosing short forms would save memory nobody misses.

/// A place in the code that jumps may name before it is reached.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

/// Condition codes, as the second byte of `jcc rel32` (source: Intel SDM, vol. 2, Jcc).
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum When {
    /// ZF = 1.
    Zero = 0x84,
    /// ZF = 0.
    NotZero = 0x85,
}

/// Code that will run at a known address.
pub(super) struct Assembler {
    base: u64,
    code: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// Fields that wait for a label: where, and which.
    waiting: Vec<(usize, Label)>,
}

impl Assembler {
    /// Begins code at `base`, for which `bytes` are expected.
    pub fn new(base: u64, bytes: usize) -> Assembler {
        let code = Vec::with_capacity(bytes);
        Assembler { base, code, labels: Vec::new(), waiting: Vec::new() }
    }

    /// The address of the next instruction.
    pub fn here(&self) -> u64 {
        self.base + self.code.len() as u64
    }

    /// Appends machine code.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// Adds to a 32-bit displacement already written: code has moved, its target has not.
    pub fn correct(&mut self, field_at: u64, by: u64) {
        let at = (field_at - self.base) as usize;
        let mut field = [0; 4];
        field.copy_from_slice(&self.code[at..at + 4]);
        let value = i32::from_le_bytes(field).wrapping_add(by as i32);
        self.code[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Begins the next instruction on a line of its own, as jump targets like it.
    pub fn align(&mut self) {
        while self.here() % 16 != 0 {
            self.code.push(0xcc);
        }
    }

    /// A label yet without a place.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Gives a label its place: here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// `jmp` to an address.
    pub fn jump(&mut self, to: u64) {
        self.code.push(0xe9);
        self.distance(to);
    }

    /// `call` of an address.
    pub fn call(&mut self, to: u64) {
        self.code.push(0xe8);
        self.distance(to);
    }

    /// Conditional jump to a label.
    pub fn jump_if(&mut self, when: When, to: Label) {
        self.code.extend_from_slice(&[0x0f, when as u8]);
        self.waiting.push((self.code.len(), to));
        self.code.extend_from_slice(&[0; 4]);
    }

    /// Unconditional jump to a label.
    pub fn jump_to(&mut self, to: Label) {
        self.code.push(0xe9);
        self.waiting.push((self.code.len(), to));
        self.code.extend_from_slice(&[0; 4]);
    }

    /// The finished code. Labels that were never placed keep a distance of zero.
    pub fn finish(mut self) -> Vec<u8> {
        for (field, label) in self.waiting {
            if let Some(to) = self.labels[label.0] {
                let distance = (to as i64 - (field as i64 + 4)) as i32;
                self.code[field..field + 4].copy_from_slice(&distance.to_le_bytes());
            }
        }
        self.code
    }

    fn distance(&mut self, to: u64) {
        let field = relative(to, self.here() + 4);
        self.code.extend_from_slice(&field);
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
