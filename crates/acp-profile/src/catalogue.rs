//! Many profiles, found by name.

use include_dir::{Dir, include_dir};

use crate::{Profile, ProfileError};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../profiles");

/// Profiles by name; an entry that cannot be used is kept with its reason.
#[derive(Debug, Default)]
pub struct Catalogue {
    profiles: Vec<Profile>,
    unusable: Vec<ProfileError>,
}

/// The known failures of a profile's agent, as a list for `acp comply --expected`; `None` when there is no list.
pub fn expected(name: &str) -> Option<&'static str> {
    FILES.get_file(format!("expected/{name}.txt"))?.contents_utf8()
}

impl Catalogue {
    /// The profiles that come with the program, sorted by name.
    pub fn built_in() -> Self {
        let files = FILES.files().filter(|file| file.path().extension().is_some_and(|ext| ext == "json"));
        let mut catalogue: Self = files
            .map(|file| {
                let place = format!("profiles/{}", file.path().display());
                match file.contents_utf8() {
                    Some(text) => Profile::parse(&place, text),
                    None => Err(ProfileError::new(place, "it is not UTF-8")),
                }
            })
            .collect();
        catalogue.profiles.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue
    }

    /// All usable profiles.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// What was left out, and why.
    pub fn unusable(&self) -> &[ProfileError] {
        &self.unusable
    }

    /// The profile of this name. The error names what there is.
    pub fn find(&self, name: &str) -> Result<&Profile, ProfileError> {
        if let Some(found) = self.profiles.iter().find(|profile| profile.name == name) {
            return Ok(found);
        }
        let quoted = format!("{name:?}");
        if let Some(why) = self.unusable.iter().find(|error| error.place.contains(&quoted)) {
            return Err(ProfileError::new(why.place.clone(), why.reason.clone()));
        }
        let names: Vec<_> = self.profiles.iter().map(|profile| profile.name.as_str()).collect();
        Err(ProfileError::new(
            format!("agent {name:?}"),
            format!("there is no such profile; there are: {}", names.join(", ")),
        ))
    }
}

impl FromIterator<Result<Profile, ProfileError>> for Catalogue {
    fn from_iter<I: IntoIterator<Item = Result<Profile, ProfileError>>>(entries: I) -> Self {
        let mut catalogue = Self::default();
        for entry in entries {
            match entry {
                Ok(profile) => catalogue.profiles.push(profile),
                Err(error) => catalogue.unusable.push(error),
            }
        }
        catalogue
    }
}
