//! Request bodies, packed or not.

use std::io::Read;

/// The largest body that is read, unpacked.
pub(crate) const LIMIT: usize = 64 * 1024 * 1024;

/// Why the body of a request cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is not zstd: {0}")]
    Zstd(String),
    #[error("the body is not {packing}: {error}")]
    Damaged { packing: &'static str, error: std::io::Error },
    #[error("the body is packed with {0:?}; gzip, deflate and zstd are known")]
    UnknownPacking(String),
    #[error("the unpacked body is larger than {LIMIT} bytes")]
    TooLarge,
    #[error("the body is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
}

/// Unpacks a body by its `content-encoding`.
pub(crate) fn unpack(encoding: &str, body: &[u8]) -> Result<Vec<u8>, BodyError> {
    match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body.to_vec()),
        "gzip" | "x-gzip" => read("gzip", flate2::read::MultiGzDecoder::new(body)),
        "deflate" => read("deflate", flate2::read::ZlibDecoder::new(body)),
        "zstd" => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(body)
                .map_err(|error| BodyError::Zstd(error.to_string()))?;
            read("zstd", decoder)
        }
        other => Err(BodyError::UnknownPacking(other.to_owned())),
    }
}

fn read(packing: &'static str, reader: impl Read) -> Result<Vec<u8>, BodyError> {
    let mut out = Vec::new();
    let most = u64::try_from(LIMIT).unwrap_or(u64::MAX);
    reader.take(most + 1).read_to_end(&mut out).map_err(|error| BodyError::Damaged { packing, error })?;
    if out.len() > LIMIT {
        return Err(BodyError::TooLarge);
    }
    Ok(out)
}
