//! What is mapped in a process: the lines of /proc/PID/maps.

use std::ops::Range;

/// What a mapping is, as far as its name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappingKind {
    /// The heap that brk(2) grows.
    Heap,
    /// The main thread's stack.
    Stack,
    /// Memory without a file.
    Anonymous,
    /// A file, or shared memory.
    File,
    /// The kernel's own pages: vdso, vvar and the like.
    Kernel,
}

/// One mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Its addresses, whole pages.
    pub pages: Range<usize>,
    /// May be read.
    pub is_readable: bool,
    /// May be written.
    pub is_writable: bool,
    /// Others may write its pages too, through mappings of their own.
    pub is_shared: bool,
    /// What it is.
    pub kind: MappingKind,
    /// The file, or the kernel's name of it; empty for none.
    pub name: String,
}

/// Reads them, in order of address.
pub(super) fn read(pid: i32) -> std::io::Result<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(parse).collect())
}

/// `start-end perms offset dev inode   name`.
fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let name = fields.nth(3).unwrap_or("").trim_start();
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(Mapping {
        // [vsyscall] lies in the upper half, which fits as well.
        pages: address(start)?..address(end)?,
        is_readable: rights.first() == Some(&b'r'),
        is_writable: rights.get(1) == Some(&b'w'),
        is_shared: rights.get(3) == Some(&b's'),
        kind: kind(name),
        name: name.to_owned(),
    })
}

fn kind(name: &str) -> MappingKind {
    match name {
        "[heap]" => MappingKind::Heap,
        "[stack]" => MappingKind::Stack,
        "" => MappingKind::Anonymous,
        _ if name.starts_with("[anon") => MappingKind::Anonymous,
        _ if name.starts_with('[') => MappingKind::Kernel,
        _ => MappingKind::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_names_that_have_spaces() {
        let line = "7f00-8000 r--s 00001000 00:01 77                         /a b (deleted)";
        let found = parse(line).expect("a line");
        assert_eq!(found.pages, 0x7f00..0x8000);
        assert!(found.is_readable && found.is_shared && !found.is_writable);
        assert_eq!((found.kind, found.name.as_str()), (MappingKind::File, "/a b (deleted)"));
        let heap = parse("1000-2000 rw-p 00000000 00:00 0    [heap]").expect("a line");
        assert_eq!(heap.kind, MappingKind::Heap);
        let none = parse("1000-2000 rw-p 00000000 00:00 0 ").expect("a line");
        assert_eq!((none.kind, none.is_shared), (MappingKind::Anonymous, false));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn ones_own_stack_and_code_are_found() {
        let own = read(std::process::id() as i32).expect("reads");
        let here = own.as_ptr() as usize;
        assert!(own.iter().any(|it| it.pages.contains(&here) && it.is_writable));
        assert!(own.iter().any(|it| it.kind == MappingKind::Stack));
    }
}
