"""Tar archives whose bytes depend only on their content."""
import gzip
import io
import tarfile

from . import project


class Tarball:
    """A gzipped tar archive. Add files, then write it."""

    def __init__(self, path, level):
        self._path = path
        self._level = level
        self._time = project.timestamp()
        self._files = {}

    def add(self, name, content, mode=0o644):
        """Adds a file; `content` is bytes, text or a path."""
        self._files[name] = (content, mode)

    def write(self):
        """Writes the archive and returns its path."""
        with open(self._path, "wb") as raw, gzip.GzipFile("", "wb", self._level, raw, mtime=self._time) as zipped, \
                tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, (content, mode) in sorted(self._files.items()):
                data = content_bytes(content)
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime = len(data), mode, self._time
                tar.addfile(info, io.BytesIO(data))
        return self._path


def content_bytes(content):
    """Bytes, text or a path as bytes."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    return content.read_bytes()
