//! Where devices are: at which memory node, as the kernel says it.

use std::fs;
use std::path::Path;

use rustix::fs::{major, minor};

/// What sysfs names every block device by.
const BLOCK: &str = "/sys/dev/block";

/// The memory node that a device is at; none where nobody says: a machine of one node, a virtual disk, a
/// file system without a device.
pub fn node_of(device: u64) -> Option<u32> {
    node_below(Path::new(BLOCK), device)
}

/// The first node that is named by the device's folder, or by one that it lies in: a partition's disk, its
/// controller, that one's slot.
fn node_below(block: &Path, device: u64) -> Option<u32> {
    let name = format!("{}:{}", major(device), minor(device));
    let folder = fs::canonicalize(block.join(name)).ok()?;
    folder.ancestors().find_map(|folder| {
        let said = ["numa_node", "device/numa_node"].map(|name| folder.join(name));
        said.iter().find_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    #[test]
    fn a_partition_is_where_its_controller_is() {
        let root = std::env::temp_dir().join(format!("topology-{}", std::process::id()));
        let disk = root.join("pci0/slot/nvme/nvme0/nvme0n1");
        fs::create_dir_all(disk.join("nvme0n1p1")).unwrap();
        fs::create_dir_all(root.join("virtual/loop0")).unwrap();
        let block = root.join("block");
        fs::create_dir_all(&block).unwrap();
        std::os::unix::fs::symlink(disk.join("nvme0n1p1"), block.join("259:1")).unwrap();
        std::os::unix::fs::symlink(root.join("virtual/loop0"), block.join("7:0")).unwrap();
        let of = |major, minor| node_below(&block, makedev(major, minor));
        assert_eq!(of(259, 1), None);
        fs::write(root.join("pci0/slot/numa_node"), "1\n").unwrap();
        assert_eq!((of(259, 1), of(7, 0), of(8, 0)), (Some(1), None, None));
        // What has none says -1.
        fs::write(root.join("pci0/slot/numa_node"), "-1\n").unwrap();
        assert_eq!(of(259, 1), None);
        fs::remove_dir_all(root).unwrap();
    }
}
