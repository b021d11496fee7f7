//! The drivers that come with the program.

use std::io;
use std::path::Path;

use acp_comply::did_you_mean;
use include_dir::{Dir, include_dir};

use super::{ClientDriver, DriverError};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../drivers");

/// The built-in drivers.
#[derive(Debug, Default)]
pub struct DriverCatalogue {
    drivers: Vec<ClientDriver>,
    unusable: Vec<DriverError>,
}

impl DriverCatalogue {
    /// Reads them, sorted by name.
    pub fn built_in() -> DriverCatalogue {
        let mut catalogue = DriverCatalogue::default();
        for file in FILES.files().filter(|file| file.path().extension().is_some_and(|it| it == "json")) {
            let place = format!("drivers/{}", file.path().display());
            let driver = match file.contents_utf8() {
                Some(text) => ClientDriver::parse(&place, text),
                None => Err(DriverError::new(&place, "it is not UTF-8")),
            };
            match driver {
                Ok(driver) if file.path().file_stem().is_some_and(|stem| stem == driver.name.as_str()) => {
                    catalogue.drivers.push(driver);
                }
                Ok(driver) => {
                    let reason = format!("its name is {:?}; a driver has the name of its file", driver.name);
                    catalogue.unusable.push(DriverError::new(place, reason));
                }
                Err(error) => catalogue.unusable.push(error),
            }
        }
        catalogue.drivers.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue
    }

    /// All usable ones.
    pub fn drivers(&self) -> &[ClientDriver] {
        &self.drivers
    }

    /// What was left out, and why.
    pub fn unusable(&self) -> &[DriverError] {
        &self.unusable
    }

    /// The one of this name. The error names what there is.
    pub fn find(&self, name: &str) -> Result<&ClientDriver, DriverError> {
        let known = || self.drivers.iter().map(|driver| driver.name.as_str());
        self.drivers.iter().find(|driver| driver.name == name).ok_or_else(|| {
            let near = did_you_mean(name, known());
            let all = known().collect::<Vec<_>>().join(", ");
            DriverError::new(
                format!("driver {name:?}"),
                format!("there is no built-in driver of that name{near}; there are {all}; a file is named with its path"),
            )
        })
    }
}

/// The list of known failures of a driver's client; `None` when there is no list.
pub fn expected(name: &str) -> Option<&'static str> {
    FILES.get_file(format!("expected/{name}.txt"))?.contents_utf8()
}

/// Writes the files that belong to a built-in driver into a folder.
pub fn unpack(name: &str, into: &Path) -> io::Result<()> {
    std::fs::create_dir_all(into)?;
    FILES.get_dir(name).map_or(Ok(()), |dir| write(dir, Path::new(name), into))
}

fn write(dir: &Dir<'_>, root: &Path, into: &Path) -> io::Result<()> {
    for file in dir.files() {
        let path = into.join(file.path().strip_prefix(root).unwrap_or(file.path()));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, file.contents())?;
    }
    dir.dirs().try_for_each(|dir| write(dir, root, into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_driver_can_be_used() {
        let catalogue = DriverCatalogue::built_in();
        let wrong: Vec<String> = catalogue.unusable().iter().map(ToString::to_string).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(catalogue.find("acp-prompt").is_ok());
        assert!(catalogue.find("acp-promt").is_err_and(|error| error.to_string().contains("acp-prompt?")));
    }
}
