//! Request bodies, packed or not.

use std::io::Read;

/// The largest body that is read, unpacked.
pub(crate) const LIMIT: usize = 64 * 1024 * 1024;

/// Unpacks a body by its `content-encoding`.
pub(crate) fn unpack(encoding: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body.to_vec()),
        "gzip" | "x-gzip" => read("gzip", flate2::read::MultiGzDecoder::new(body)),
        "deflate" => read("deflate", flate2::read::ZlibDecoder::new(body)),
        "zstd" => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(body)
                .map_err(|error| format!("the body is not zstd: {error}"))?;
            read("zstd", decoder)
        }
        other => Err(format!("the body is packed with {other:?}; gzip, deflate and zstd are known")),
    }
}

fn read(name: &str, reader: impl Read) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let most = u64::try_from(LIMIT).unwrap_or(u64::MAX);
    reader
        .take(most + 1)
        .read_to_end(&mut out)
        .map_err(|error| format!("the body is not {name}: {error}"))?;
    if out.len() > LIMIT {
        return Err(format!("the unpacked body is larger than {LIMIT} bytes"));
    }
    Ok(out)
}
