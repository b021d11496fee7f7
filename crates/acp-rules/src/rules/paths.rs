//! What an absolute path looks like, here and elsewhere.

/// Whether a path is absolute: Unix, a Windows drive, or a UNC name.
pub(crate) fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    let drive = bytes.len() >= 3
        && bytes[0].is_ascii_alphabetic()
        && bytes[1] == b':'
        && matches!(bytes[2], b'\\' | b'/');
    path.starts_with('/') || path.starts_with("\\\\") || drive
}

#[cfg(test)]
mod tests {
    use super::is_absolute;

    #[test]
    fn drives_and_unc_names_are_absolute_too() {
        for path in ["/", "/a/b", "C:\\x", "d:/x", "\\\\server\\share"] {
            assert!(is_absolute(path), "{path}");
        }
        for path in ["", ".", "a/b", "~/x", "C:", "C:x", "file:///x"] {
            assert!(!is_absolute(path), "{path}");
        }
    }
}
