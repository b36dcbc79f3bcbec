//! The head of a NumPy file (format 1.0), from a description as the Python package writes it.
//!
//! The description is a producer's, so foreign: what comes out is a literal of known kinds only,
//! and only if it says as many bytes as there are.

use serde_json::Value;

/// Dimensions that NumPy has at most.
const DIMENSIONS_MAX: usize = 64;
/// The header's length is a multiple of this, so that data may be mapped.
const ALIGNMENT: usize = 64;
/// Nesting of structured types that is followed.
const DEPTH_MAX: usize = 8;

/// The head of a file with the array that `description` tells, of `length` bytes; or why there is
/// none.
pub fn header(description: &[u8], length: u64) -> Result<Vec<u8>, &'static str> {
    let said: Value = serde_json::from_slice(description).map_err(|_| "it is no JSON")?;
    if said["heliostat"] != 1 {
        return Err("it is not of the form {\"heliostat\":1, ...}");
    }
    let shape = extents(&said["shape"])?;
    let (descr, item_bytes) = kind(said.get("descr").unwrap_or(&said["typestr"]), DEPTH_MAX)?;
    let product = |bytes: u64, extent: &u64| bytes.checked_mul(*extent);
    if shape.iter().try_fold(item_bytes, product) != Some(length) {
        return Err("type and shape are of another length than the region");
    }
    let shape: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let mut text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({shape}), }}");
    let start = 10;
    let padding = (start + text.len() + 1).next_multiple_of(ALIGNMENT) - start - text.len() - 1;
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    let bytes = u16::try_from(text.len()).map_err(|_| "the type is too long for NumPy 1.0")?;
    Ok([b"\x93NUMPY\x01\x00", &bytes.to_le_bytes()[..], text.as_bytes()].concat())
}

fn extents(shape: &Value) -> Result<Vec<u64>, &'static str> {
    let all =
        shape.as_array().filter(|all| all.len() <= DIMENSIONS_MAX).ok_or("it has no shape")?;
    all.iter()
        .map(|extent| extent.as_u64().ok_or("its shape has something else than numbers"))
        .collect()
}

/// A type as NumPy writes it, and its bytes.
fn kind(said: &Value, depth: usize) -> Result<(String, u64), &'static str> {
    match said {
        Value::String(text) => Ok((format!("'{text}'"), plain_bytes(text)?)),
        Value::Array(fields) if depth > 0 && !fields.is_empty() => {
            let mut text = String::from("[");
            let mut bytes = 0u64;
            for said in fields {
                let (one, one_bytes) = field(said, depth)?;
                text.push_str(&one);
                text.push_str(", ");
                bytes = bytes.checked_add(one_bytes).ok_or("its type is too long")?;
            }
            text.push(']');
            Ok((text, bytes))
        }
        _ => Err("it has no type"),
    }
}

/// One field: name, type, perhaps a shape.
fn field(said: &Value, depth: usize) -> Result<(String, u64), &'static str> {
    let parts = said.as_array().map_or(&[][..], Vec::as_slice);
    let (name, inner, shape) = match parts {
        [name, inner] => (name, inner, Vec::new()),
        [name, inner, shape] => (name, inner, extents(shape)?),
        _ => return Err("a field of its type is not of the form [name, type, shape]"),
    };
    let name = match name {
        Value::Array(titled) if titled.len() == 2 => {
            format!("({}, {})", quoted(&titled[0])?, quoted(&titled[1])?)
        }
        name => quoted(name)?,
    };
    let (inner, bytes) = kind(inner, depth - 1)?;
    let product = |bytes: u64, extent: &u64| bytes.checked_mul(*extent);
    let bytes = shape.iter().try_fold(bytes, product).ok_or("its type is too long")?;
    let shape: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    Ok(match shape.is_empty() {
        true => (format!("({name}, {inner})"), bytes),
        false => (format!("({name}, {inner}, ({shape}))"), bytes),
    })
}

/// A name as a literal; format 1.0 is Latin-1, and plain ASCII is all that needs no thought.
fn quoted(name: &Value) -> Result<String, &'static str> {
    let name = name.as_str().ok_or("a field has no name")?;
    if !name.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        return Err("a field's name is not plain ASCII");
    }
    Ok(format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'")))
}

/// Bytes of a type like `<f8`; pointers are none of a file's.
fn plain_bytes(text: &str) -> Result<u64, &'static str> {
    let no_type = "its type is none of plain numbers, texts and times";
    let (digits, unit) = match text.split_once('[') {
        Some((before, unit)) => (before, Some(unit)),
        None => (text, None),
    };
    let mut characters = digits.chars();
    let (order, kind) = (characters.next().unwrap_or(' '), characters.next().unwrap_or(' '));
    let count: u64 = characters.as_str().parse().map_err(|_| no_type)?;
    let is_unit = |unit: &str| {
        "mM".contains(kind)
            && unit
                .strip_suffix(']')
                .is_some_and(|it| it.chars().all(|c| c.is_ascii_alphanumeric()))
    };
    if !"<>|=".contains(order) || !"biufcSUVmM".contains(kind) || !unit.is_none_or(is_unit) {
        return Err(no_type);
    }
    count.checked_mul(if kind == 'U' { 4 } else { 1 }).ok_or(no_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(description: &str, length: u64) -> Result<String, &'static str> {
        let head = header(description.as_bytes(), length)?;
        assert_eq!((&head[..8], head.len() % 64), (&b"\x93NUMPY\x01\x00"[..], 0));
        assert_eq!(usize::from(u16::from_le_bytes([head[8], head[9]])), head.len() - 10);
        assert_eq!(head.last(), Some(&b'\n'));
        Ok(String::from_utf8(head[10..].to_vec()).unwrap().trim_end().to_owned())
    }

    #[test]
    fn an_array_is_told_as_numpy_tells_it() {
        let said = r#"{"heliostat":1,"typestr":"<f8","shape":[96,16]}"#;
        let wanted = "{'descr': '<f8', 'fortran_order': False, 'shape': (96, 16, ), }";
        assert_eq!(text(said, 96 * 16 * 8).unwrap(), wanted);
        let said = r#"{"heliostat":1,"typestr":"|V20","shape":[2],
            "descr":[["a","<f8"],["it's","<i4",[3]]]}"#;
        let wanted = "{'descr': [('a', '<f8'), ('it\\'s', '<i4', (3, )), ], \
                      'fortran_order': False, 'shape': (2, ), }";
        assert_eq!(text(said, 40).unwrap(), wanted);
    }

    #[test]
    fn what_tells_no_array_of_this_length_is_refused() {
        for (typestr, shape) in [
            ("<f8", "[4]"),
            ("<f8", "[]"),
            ("|O8", "[3]"),
            ("<f8'+x", "[3]"),
            ("<f", "[3]"),
            ("<f8", "[18446744073709551615,18446744073709551615]"),
            ("<f8", "[-3]"),
            ("<M8[n'", "[3]"),
            ("<U8", "[3]"),
        ] {
            let said = format!("{{\"heliostat\":1,\"typestr\":\"{typestr}\",\"shape\":{shape}}}");
            assert!(text(&said, 24).is_err(), "{said}");
        }
        assert!(text("bytes", 24).is_err() && text("{}", 24).is_err());
        assert!(text(r#"{"heliostat":1,"typestr":"<M8[ns]","shape":[3]}"#, 24).is_ok());
    }
}
