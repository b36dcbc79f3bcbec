//! The cluster's secret: 64 hexadecimal digits in a file that only its owner may read.

use std::path::Path;

use heliostat_server_node::Secret;

use super::private_file;

/// Reads the secret.
///
/// # Errors
/// It is not there, others than its owner may read or change it, it belongs to somebody else, or it
/// holds something else: with file and limit, in words.
pub fn read(path: &Path) -> Result<Secret, String> {
    let text = private_file::read(path, "secret")?;
    let wrong = |what: String| format!("cluster.secret: {}: {what}", path.display());
    Secret::from_hex(&text).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(name: &str, mode: u32, text: &str) -> std::path::PathBuf {
        let name = format!("heliostat-secret-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn complaint(name: &str, mode: u32, text: &str) -> String {
        let path = file(name, mode, text);
        let found = read(&path).map(|_| ()).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        found.replace(&path.display().to_string(), "FILE")
    }

    #[test]
    fn a_secret_that_only_its_owner_may_read_is_read() {
        let path = file("fine", 0o400, &format!("{}\n", "5a".repeat(32)));
        assert!(read(&path).is_ok());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_secret_that_others_may_read_or_that_is_none_is_refused_with_words() {
        let digits = "5a".repeat(32);
        let wanted = "cluster.secret: FILE: its mode is 640: others than its owner may read or change it; chmod 600 it";
        assert_eq!(complaint("open", 0o640, &digits), wanted);
        assert_eq!(
            complaint("short", 0o600, &digits[1..]),
            "cluster.secret: FILE: a secret is 64 hexadecimal digits"
        );
        let missing = read(Path::new("/nonexistent/secret")).map(|_| ()).unwrap_err();
        assert!(missing.starts_with("cluster.secret: /nonexistent/secret: "), "{missing}");
        let folder = read(&std::env::temp_dir()).map(|_| ()).unwrap_err();
        assert!(folder.ends_with("it is no regular file"), "{folder}");
    }
}
