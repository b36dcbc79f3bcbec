//! Writes into memory that a device has pinned, which no page table shows.

use heliostat_stub_snapshot::Region;

use crate::orders::Orders;
use crate::pen::{region, Pen};
use crate::plan::PAGE;
use crate::produce::attach;

/// Writes by a ring whose buffer was pinned before the region was watched: declared, they are
/// seen. Answers whether they are without.
pub fn run(orders: &Orders) -> Result<(), String> {
    let mut ring = match crate::uring::Uring::new() {
        Ok(ring) => ring,
        Err(why) => {
            println!("skipped: io_uring: {why}");
            return Ok(());
        }
    };
    let pen = Pen::new(orders)?;
    let error = |error: std::io::Error| error.to_string();
    let (at, len) = (pen.memory.page(8), 4 * PAGE);
    ring.register(at, len).map_err(error)?;
    let mut region = region(orders, &pen)?;
    let (consumer, _) = attach(&mut region)?;
    let publish = |region: &mut Region| region.publish().map_err(|error| error.to_string());
    publish(&mut region)?;
    let mut write = |byte: u8| {
        let (mut ends, bytes) = ([-1; 2], [byte; 64]);
        // SAFETY: a live array of two descriptors, and 64 live bytes.
        let wrote = unsafe {
            libc::pipe(ends.as_mut_ptr());
            libc::write(ends[1], bytes.as_ptr().cast(), bytes.len())
        };
        ring.read(ends[0], at, wrote as usize, true).map_err(error)
    };
    let seen = |byte: u8| {
        let version = consumer.latest().map_err(|error| error.to_string())?;
        let mut found = [0];
        version.read(8 * PAGE, &mut found).map_err(|error| error.to_string())?;
        Ok::<bool, String>(found[0] == byte)
    };
    write(1)?;
    publish(&mut region)?;
    println!("undeclared: {}", if seen(1)? { "seen" } else { "invisible" });
    write(2)?;
    region.declare(8 * PAGE..9 * PAGE).map_err(|error| error.to_string())?;
    publish(&mut region)?;
    match seen(2)? {
        true => println!("declared: seen"),
        false => return Err("a declared write is not in the version".into()),
    }
    Ok(())
}
