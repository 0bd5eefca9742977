//! SHA-256 of files and of texts, as they are printed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Bytes read at once.
const PIECE: usize = 1 << 18;

/// The SHA-256 of a file's bytes, in hexadecimal.
///
/// # Errors
/// The file can't be read.
pub(crate) fn file(path: &Path) -> io::Result<String> {
    let (mut file, mut digest) = (File::open(path)?, Sha256::new());
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => digest.update(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The SHA-256 of a text in base64, as a Content-Security-Policy names it.
pub(crate) fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = Sha256::digest(text.as_bytes());
    let mut out = String::new();
    for three in digest.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, i| bits << 8 | usize::from(three.get(i).copied().unwrap_or(0)));
        for digit in 0..4 {
            let sign = if digit <= three.len() { char::from(DIGITS[bits >> (18 - 6 * digit) & 63]) } else { '=' };
            out.push(sign);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_that_sha256sum_and_openssl_print() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(file(&path).unwrap(), abc);
        assert!(file(&folder.path().join("none")).is_err());
        assert_eq!(base64("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
        assert_eq!(base64(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }
}
