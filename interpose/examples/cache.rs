//! Makes sure that the sites of this machine's libc are cached, and says where.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let libc = heliostat_interpose::libc_path().ok_or("no libc in this process")?;
    println!("{}", heliostat_interpose::ensure_cached(&libc)?.display());
    Ok(())
}
