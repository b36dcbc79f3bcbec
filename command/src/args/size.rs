//! Sizes as people write them: `64K`, `512M`, `2G`, `1048576`.

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// Reads bytes, or a whole number with K, M, G or T, in powers of 1024; `iB` may follow the unit.
///
/// # Errors
/// What the text would have to be.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is no size; write bytes or a whole number with K, M, G or T, as 512M");
    let bare = text.strip_suffix("iB").unwrap_or(text);
    let upper = bare.to_ascii_uppercase();
    let unit = UNITS.iter().find(|(letter, _)| upper.ends_with(*letter));
    let (digits, shift) = match unit {
        Some((letter, shift)) => (upper.trim_end_matches(*letter), *shift),
        None if bare.len() == text.len() => (text, 0),
        None => return Err(wrong()),
    };
    let number: Option<u64> = digits.parse().ok().filter(|_| !digits.starts_with('+'));
    number.and_then(|number| number.checked_mul(1 << shift)).ok_or_else(wrong)
}
