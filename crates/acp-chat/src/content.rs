//! Files as prompt content.

use std::io;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    AudioContent, BlobResourceContents, ContentBlock, EmbeddedResource, EmbeddedResourceResource,
    ImageContent, ResourceLink, TextResourceContents,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Why a file cannot be sent along.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// There is no such file.
    #[error("cannot find {}: {error}", .path.display())]
    Missing {
        /// As it was given.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable {
        /// As it was given.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Its name does not say what it is.
    #[error("{}: its name must end as one of {known}", .path.display())]
    Kind {
        /// As it was given.
        path: PathBuf,
        /// The endings that are known.
        known: &'static str,
    },
}

/// Files to send along with a prompt.
#[derive(Debug, Default)]
pub struct Attachments<'a> {
    /// Sent as links.
    pub file: &'a [PathBuf],
    /// Sent with their content.
    pub embed: &'a [PathBuf],
    /// Sent as images.
    pub image: &'a [PathBuf],
    /// Sent as sounds.
    pub audio: &'a [PathBuf],
}

impl Attachments<'_> {
    /// The content, in the order link, embedded, image, audio.
    pub fn read(&self) -> Result<Vec<ContentBlock>, ContentError> {
        let each = |paths: &[PathBuf], read: fn(&Path) -> Result<ContentBlock, ContentError>| {
            paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()
        };
        let blocks = [
            each(self.file, link)?,
            each(self.embed, embedded)?,
            each(self.image, image)?,
            each(self.audio, audio)?,
        ];
        Ok(blocks.concat())
    }
}

/// A link to a file.
pub fn link(path: &Path) -> Result<ContentBlock, ContentError> {
    let real = real(path)?;
    let name = real
        .file_name()
        .map_or_else(|| real.display().to_string(), |name| name.to_string_lossy().into_owned());
    let size = std::fs::metadata(&real).ok().filter(std::fs::Metadata::is_file);
    let link = ResourceLink::new(name, uri(&real))
        .size(size.and_then(|meta| i64::try_from(meta.len()).ok()))
        .mime_type(kind_of(path).map(str::to_owned));
    Ok(ContentBlock::ResourceLink(link))
}

/// A file's content: as text if it is UTF-8, as base64 otherwise.
pub fn embedded(path: &Path) -> Result<ContentBlock, ContentError> {
    let uri = uri(&real(path)?);
    let mime = kind_of(path).map(str::to_owned);
    let resource = match String::from_utf8(read(path)?) {
        Ok(text) => EmbeddedResourceResource::TextResourceContents(
            TextResourceContents::new(text, uri).mime_type(mime),
        ),
        Err(error) => {
            let blob = BASE64_STANDARD.encode(error.as_bytes());
            EmbeddedResourceResource::BlobResourceContents(
                BlobResourceContents::new(blob, uri).mime_type(mime),
            )
        }
    };
    Ok(ContentBlock::Resource(EmbeddedResource::new(resource)))
}

/// An image.
pub fn image(path: &Path) -> Result<ContentBlock, ContentError> {
    let mime = media(path, "image/", "png, jpeg, gif, webp or svg")?;
    Ok(ContentBlock::Image(ImageContent::new(BASE64_STANDARD.encode(read(path)?), mime)))
}

/// A sound.
pub fn audio(path: &Path) -> Result<ContentBlock, ContentError> {
    let mime = media(path, "audio/", "wav, mp3, ogg, flac or aac")?;
    Ok(ContentBlock::Audio(AudioContent::new(BASE64_STANDARD.encode(read(path)?), mime)))
}

fn media(path: &Path, prefix: &str, known: &'static str) -> Result<&'static str, ContentError> {
    match kind_of(path) {
        Some(kind) if kind.starts_with(prefix) => Ok(kind),
        _ => Err(ContentError::Kind { path: path.to_owned(), known }),
    }
}

fn real(path: &Path) -> Result<PathBuf, ContentError> {
    path.canonicalize().map_err(|error| ContentError::Missing { path: path.to_owned(), error })
}

fn read(path: &Path) -> Result<Vec<u8>, ContentError> {
    std::fs::read(path).map_err(|error| ContentError::Unreadable { path: path.to_owned(), error })
}

fn uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// A media type by the end of the name; `None` when nothing is known, for nothing is invented.
fn kind_of(path: &Path) -> Option<&'static str> {
    const KINDS: &[(&str, &str)] = &[
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("svg", "image/svg+xml"),
        ("wav", "audio/wav"),
        ("mp3", "audio/mp3"),
        ("ogg", "audio/ogg"),
        ("flac", "audio/flac"),
        ("aac", "audio/aac"),
        ("txt", "text/plain"),
        ("md", "text/markdown"),
        ("html", "text/html"),
        ("css", "text/css"),
        ("csv", "text/csv"),
        ("json", "application/json"),
        ("pdf", "application/pdf"),
        ("rs", "text/x-rust"),
        ("py", "text/x-python"),
        ("go", "text/x-go"),
        ("js", "text/javascript"),
        ("ts", "text/typescript"),
        ("toml", "application/toml"),
        ("yaml", "application/yaml"),
        ("yml", "application/yaml"),
        ("sh", "text/x-shellscript"),
        ("c", "text/x-c"),
        ("h", "text/x-c"),
    ];
    let end = path.extension()?.to_str()?.to_ascii_lowercase();
    KINDS.iter().find(|(known, _)| *known == end).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_of_content_has_the_fields_it_needs() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a real path");
        let file = |name: &str, bytes: &[u8]| {
            let path = base.join(name);
            std::fs::write(&path, bytes).expect("a file");
            path
        };
        let value = |block: Result<ContentBlock, ContentError>| {
            serde_json::to_value(block.expect("content")).expect("JSON")
        };
        let note = file("a note.md", b"hi");
        let uri = format!("file://{}/a%20note.md", base.display());
        assert_eq!(
            value(link(&note)),
            json!({"type": "resource_link", "name": "a note.md", "uri": uri, "size": 2, "mimeType": "text/markdown"})
        );
        let resource = json!({"uri": uri, "text": "hi", "mimeType": "text/markdown"});
        assert_eq!(value(embedded(&note)), json!({"type": "resource", "resource": resource}));
        assert_eq!(value(embedded(&file("raw", b"\xFF")))["resource"]["blob"], "/w==");
        assert_eq!(
            value(image(&file("x.PNG", b"\x89"))),
            json!({"type": "image", "data": "iQ==", "mimeType": "image/png"})
        );
        assert_eq!(
            value(audio(&file("x.wav", b"a"))),
            json!({"type": "audio", "data": "YQ==", "mimeType": "audio/wav"})
        );
        assert!(image(&note).is_err() && audio(&note).is_err() && link(&base.join("none")).is_err());
    }
}
