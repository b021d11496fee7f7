//! What a project tells agents: `AGENTS.md` and its like, and skills.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use acp_host::real_path;
use acp_policy::{
    Policy, PolicyRequest, PolicyRules, PolicyVerdict, ToolAction, ToolKind, ToolPatterns, ToolStage,
};
use acp_script::agent::Fence;

/// Files with instructions, in the order in which they are told.
const FILES: [&str; 5] =
    ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", ".cursorrules"];
/// Folders with a folder for each skill.
const SKILLS: [&str; 3] = [".agents/skills", ".claude/skills", ".github/skills"];
/// The file that tells what a skill is.
const SKILL: &str = "SKILL.md";
/// So many bytes of one file are told.
const FILE: usize = 16 << 10;
/// And so many of all together, the innermost first.
const ALL: usize = 32 << 10;
/// So many bytes of a skill.
const BODY: u64 = 64 << 10;
/// So many characters of a skill's description.
const DESCRIPTION: usize = 500;
/// So many skills.
const MOST: usize = 50;

/// Reads instructions where this agent may read files.
#[derive(Clone)]
pub(crate) struct Reader {
    fence: Fence,
    deny: PolicyRules,
}

/// A file with instructions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// Its absolute path.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A skill, as its front matter describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skill {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Its file.
    pub(crate) file: PathBuf,
}

impl Reader {
    /// Reads below the fence, and never what is denied.
    pub(crate) fn new(fence: Fence, deny: &ToolPatterns) -> Self {
        Self { fence, deny: PolicyRules { deny: deny.clone(), ..PolicyRules::of(Policy::Yolo) } }
    }

    /// The instructions for work in this folder, the outermost first.
    pub(crate) fn instructions(&self, cwd: &Path) -> Vec<Instructions> {
        let folders = self.folders(cwd);
        let Some(top) = folders.last().cloned() else { return Vec::new() };
        let (mut found, mut room): (Vec<Instructions>, usize) = (Vec::new(), ALL);
        for folder in &folders {
            let here: Vec<Instructions> = FILES
                .iter()
                .filter_map(|name| self.file(&folder.join(name), &top, cwd))
                .filter(|file| !refers_only(&file.text))
                .collect();
            // The inner ones come last in the end, and are the last to go where there is no room.
            for mut file in here.into_iter().rev() {
                if room == 0 || found.iter().any(|known| known.text == file.text) {
                    continue;
                }
                shorten(&mut file.text, room.min(FILE));
                room = room.saturating_sub(file.text.len());
                found.push(file);
            }
        }
        found.reverse();
        found
    }

    /// The skills for work in this folder, by name; of two with the same name the inner one.
    pub(crate) fn skills(&self, cwd: &Path) -> Vec<Skill> {
        let folders = self.folders(cwd);
        let Some(top) = folders.last().cloned() else { return Vec::new() };
        let mut skills: BTreeMap<String, Skill> = BTreeMap::new();
        for place in folders.iter().rev().flat_map(|folder| SKILLS.map(|name| folder.join(name))) {
            let Ok(entries) = fs::read_dir(place) else { continue };
            for file in entries.filter_map(Result::ok).map(|entry| entry.path().join(SKILL)) {
                let Some(found) = self.file(&file, &top, cwd) else { continue };
                let skill = described(&found.text, file);
                skills.insert(skill.name.clone(), skill);
            }
        }
        skills.into_values().take(MOST).collect()
    }

    /// What a skill says, without its front matter.
    pub(crate) fn skill(&self, cwd: &Path, name: &str) -> Result<String, String> {
        let skills = self.skills(cwd);
        let Some(skill) = skills.iter().find(|skill| skill.name == name) else {
            let known: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("there is no skill {name:?} here; there are: {known}"));
        };
        let text = read(&skill.file, BODY).ok_or_else(|| format!("cannot read {}", skill.file.display()))?;
        let folder = skill.file.parent().unwrap_or(&skill.file);
        Ok(format!("The files of this skill are in {}.\n\n{}", folder.display(), body(&text).trim()))
    }

    /// The folder and those around it, up to the root of the repository; only itself outside of one.
    fn folders(&self, cwd: &Path) -> Vec<PathBuf> {
        let real = real_path(cwd);
        let ancestors: Vec<PathBuf> = real.ancestors().map(Path::to_owned).collect();
        let root = ancestors.iter().position(|folder| folder.join(".git").exists()).unwrap_or(0);
        let may = |folder: &PathBuf| self.fence.holds(&folder.to_string_lossy());
        ancestors.into_iter().take(root + 1).take_while(may).collect()
    }

    /// A file that lies below `top`, links followed, and may be read.
    fn file(&self, path: &Path, top: &Path, cwd: &Path) -> Option<Instructions> {
        let real = path.canonicalize().ok().filter(|real| real.starts_with(top))?;
        let (root, given, found) = (cwd.to_string_lossy(), path.to_string_lossy(), real.to_string_lossy());
        let denied = |path: &str| {
            let (action, tools) = (ToolAction::Path(path), &["read_file"][..]);
            let request = PolicyRequest {
                stage: ToolStage::Access,
                kind: ToolKind::Read,
                tools,
                action,
                root: Some(&root),
            };
            self.deny.decide(&request).verdict == PolicyVerdict::Deny
        };
        if denied(&given) || denied(&found) {
            return None;
        }
        let text = read(&real, FILE as u64 + 1)?;
        (!text.trim().is_empty()).then(|| Instructions { path: given.into_owned(), text })
    }
}

/// The beginning of an ordinary file.
fn read(path: &Path, most: u64) -> Option<String> {
    // A pipe would be waited for.
    path.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    (!bytes.contains(&0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// `@AGENTS.md` in another agent's file: what it names is told anyway.
fn refers_only(text: &str) -> bool {
    text.trim().strip_prefix('@').is_some_and(|name| FILES.contains(&name.trim_start_matches("./")))
}

fn shorten(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str("\n[… the rest has no room here; read the file for it …]");
}

/// The skill that a file describes between two lines of `---`.
fn described(text: &str, file: PathBuf) -> Skill {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let front = front(text).unwrap_or_default();
    let name = field(front, "name").filter(|name| !name.is_empty()).unwrap_or(folder);
    let mut description = field(front, "description").unwrap_or_default();
    if let Some((end, _)) = description.char_indices().nth(DESCRIPTION) {
        description.truncate(end);
        description.push('…');
    }
    Skill { name, description, file }
}

fn front(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches('\u{feff}').strip_prefix("---")?;
    rest.split_once("\n---").map(|(front, _)| front)
}

fn body(text: &str) -> &str {
    match front(text).and(text.split_once("\n---")) {
        Some((_, rest)) => rest.split_once('\n').map_or("", |(_, body)| body),
        None => text,
    }
}

/// A field of front matter; lines that are indented below it belong to it.
fn field(front: &str, name: &str) -> Option<String> {
    let mut lines = front
        .lines()
        .skip_while(|line| !line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(':')));
    let first = lines.next()?.split_once(':')?.1.trim();
    let block = ["|", ">", "|-", ">-"].contains(&first);
    let more = lines.take_while(|line| line.starts_with([' ', '\t'])).map(str::trim);
    let parts: Vec<&str> = std::iter::once(first).filter(|_| !block).chain(more).collect();
    let text = parts.join(" ");
    let text = text.trim();
    let quoted = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    Some(quoted.unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, text).expect("a file");
        }
        place
    }

    fn reader(deny: &[&str]) -> Reader {
        Reader::new(Fence::default(), &ToolPatterns::parse(deny).expect("patterns"))
    }

    fn told(reader: &Reader, cwd: &Path) -> Vec<String> {
        reader.instructions(cwd).into_iter().map(|file| file.text).collect()
    }

    #[test]
    fn instructions_come_from_the_repository_down_to_the_folder() {
        let place = tree(&[
            ("AGENTS.md", "beyond the repository"),
            ("repo/.git/HEAD", ""),
            ("repo/AGENTS.md", "outer"),
            ("repo/CLAUDE.md", "@AGENTS.md\n"),
            ("repo/.github/copilot-instructions.md", "for copilot"),
            ("repo/a/b/AGENTS.md", "inner"),
            ("repo/a/b/CLAUDE.md", "inner"),
            ("repo/other/AGENTS.md", "beside"),
            ("repo/big/AGENTS.md", &"x".repeat(FILE + 10)),
        ]);
        let repo = place.path().join("repo");
        assert_eq!(told(&reader(&[]), &repo.join("a/b")), ["outer", "for copilot", "inner"]);
        assert_eq!(told(&reader(&["Read(**/copilot-instructions.md)"]), &repo), ["outer"]);
        assert_eq!(told(&reader(&[]), place.path()), ["beyond the repository"]);
        let big = told(&reader(&[]), &repo.join("big"));
        assert!(big[2].ends_with("read the file for it …]") && big[2].len() < FILE + 100, "{}", big[2].len());
        let inside = repo.join("a/b").to_string_lossy().into_owned();
        let fenced =
            Reader::new(Fence::new(move |folder| folder.starts_with(&inside)), &ToolPatterns::default());
        assert_eq!(told(&fenced, &repo.join("a/b")), ["inner"]);
    }

    #[test]
    fn a_link_out_of_the_repository_is_not_followed() {
        let place = tree(&[("secret.md", "secret"), ("repo/.git/HEAD", ""), ("repo/real.md", "real")]);
        let repo = place.path().join("repo");
        std::os::unix::fs::symlink("../secret.md", repo.join("AGENTS.md")).expect("a link");
        std::os::unix::fs::symlink("real.md", repo.join("CLAUDE.md")).expect("a link");
        assert_eq!(told(&reader(&[]), &repo), ["real"]);
    }

    #[test]
    fn skills_are_listed_by_their_front_matter_and_read_when_they_are_wanted() {
        let place = tree(&[
            ("repo/.git/HEAD", ""),
            (
                "repo/.claude/skills/pdf/SKILL.md",
                "---\nname: pdf\ndescription: \"Fills forms\"\n---\n# Steps\nDo it.\n",
            ),
            (
                "repo/.agents/skills/odd/SKILL.md",
                "---\ndescription: >\n  Two\n  lines\nlicense: MIT\n---\nBody\n",
            ),
            ("repo/sub/.agents/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: inner\n---\nInner body\n"),
            ("repo/.agents/skills/none/README.md", "no skill"),
        ]);
        let repo = place.path().join("repo");
        let listed = |cwd: &Path| -> Vec<(String, String)> {
            reader(&[]).skills(cwd).into_iter().map(|skill| (skill.name, skill.description)).collect()
        };
        let pair = |name: &str, about: &str| (name.to_owned(), about.to_owned());
        assert_eq!(listed(&repo), [pair("odd", "Two lines"), pair("pdf", "Fills forms")]);
        assert_eq!(listed(&repo.join("sub")), [pair("odd", "Two lines"), pair("pdf", "inner")]);
        let read = reader(&[]).skill(&repo, "pdf").expect("a skill");
        assert!(read.ends_with("# Steps\nDo it.") && read.contains(".claude/skills/pdf"), "{read}");
        let missing = reader(&[]).skill(&repo, "xls").expect_err("no skill");
        assert_eq!(missing, "there is no skill \"xls\" here; there are: odd, pdf");
    }
}
