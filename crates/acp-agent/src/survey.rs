//! A first `AGENTS.md` out of what the files of a project tell, without a model.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use acp_code::{CodeError, Engine, StopSignal, extract, list};
use acp_script::agent::ToolOutput;
use serde_json::Value;

/// The file that is written.
const FILE: &str = "AGENTS.md";
/// So many folders are described.
const FOLDERS: usize = 12;
/// So many languages are named.
const LANGUAGES: usize = 5;
/// So many scripts of a package are listed.
const SCRIPTS: usize = 10;

/// What a file at the top of a project says about how it is built and tested.
const MANIFESTS: [(&str, &[&str]); 8] = [
    ("Cargo.toml", &["cargo build", "cargo test", "cargo clippy --all-targets", "cargo fmt"]),
    ("go.mod", &["go build ./...", "go test ./...", "gofmt -l ."]),
    ("pyproject.toml", &["python -m pytest"]),
    ("setup.py", &["python -m pytest"]),
    ("pom.xml", &["mvn package", "mvn test"]),
    ("build.gradle", &["./gradlew build", "./gradlew test"]),
    ("build.gradle.kts", &["./gradlew build", "./gradlew test"]),
    ("CMakeLists.txt", &["cmake -B build", "cmake --build build", "ctest --test-dir build"]),
];

/// What is to be written, or why nothing is.
pub(crate) fn output(engine: &Engine, folder: &Path, stop: &StopSignal) -> Result<ToolOutput, CodeError> {
    let request = list::ListRequest {
        max_results: usize::MAX,
        depth: Some(usize::MAX),
        ..list::ListRequest::default()
    };
    let listed = engine.list(&request, stop)?;
    let files: Vec<&str> = listed.results.iter().map(|entry| entry.path.as_str()).collect();
    if files.contains(&FILE) {
        let text = format!("{FILE} is there already, and stays as it is; \"Read {FILE}\" shows it.");
        return Ok(ToolOutput { text, ..ToolOutput::default() });
    }
    let read = |file: &str| {
        let pieces = engine.extract(&extract::ExtractRequest::new([file]), stop).ok()?;
        pieces.results.into_iter().next()?.code
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let draft = draft(&name, &files, &read);
    let text = format!("A draft of {FILE} from {} files.", files.len());
    let said = Some("I looked at the files of this project and draft an AGENTS.md for it.\n\n".to_owned());
    Ok(ToolOutput { text, said, write: Some((FILE.to_owned(), draft)), ..ToolOutput::default() })
}

fn draft(name: &str, files: &[&str], read: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = format!("# {name}\n\nWhat an agent must know to work here. A draft: correct it.\n");
    if let Some(about) =
        files.iter().find(|file| file.eq_ignore_ascii_case("readme.md")).and_then(|file| read(file))
    {
        let is_prose = |line: &&str| line.len() > 20 && line.starts_with(|c: char| c.is_alphanumeric());
        if let Some(line) = about.lines().map(str::trim).find(is_prose) {
            let _ = write!(text, "\n{line}\n");
        }
    }
    let languages = languages(files);
    if !languages.is_empty() {
        let _ = write!(text, "\nLanguages: {}.\n", languages.join(", "));
    }
    let commands = commands(files, read);
    if !commands.is_empty() {
        text.push_str("\n## Build and test\n\n```\n");
        for command in commands {
            let _ = writeln!(text, "{command}");
        }
        text.push_str("```\n");
    }
    let folders = folders(files);
    if !folders.is_empty() {
        text.push_str("\n## Layout\n\n");
        for (folder, count) in folders.into_iter().take(FOLDERS) {
            let what = if count == 1 { "file" } else { "files" };
            let _ = writeln!(text, "- `{folder}/`: {count} {what}");
        }
    }
    text.push_str("\n## Customs\n\n- Keep to the style of the code around a change.\n- Run the tests before you say that something is done.\n");
    text
}

/// The languages of most files, by their extensions.
fn languages(files: &[&str]) -> Vec<String> {
    const KNOWN: [(&str, &str); 18] = [
        ("rs", "Rust"),
        ("py", "Python"),
        ("ts", "TypeScript"),
        ("tsx", "TypeScript"),
        ("js", "JavaScript"),
        ("jsx", "JavaScript"),
        ("go", "Go"),
        ("java", "Java"),
        ("kt", "Kotlin"),
        ("rb", "Ruby"),
        ("php", "PHP"),
        ("swift", "Swift"),
        ("c", "C"),
        ("h", "C"),
        ("cpp", "C++"),
        ("cc", "C++"),
        ("cs", "C#"),
        ("sh", "Shell"),
    ];
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for extension in files.iter().filter_map(|file| Path::new(file).extension()?.to_str()) {
        if let Some((_, language)) = KNOWN.iter().find(|(known, _)| *known == extension) {
            *counts.entry(language).or_default() += 1;
        }
    }
    let mut sorted: Vec<(&str, usize)> = counts.into_iter().collect();
    sorted.sort_by_key(|(language, count)| (std::cmp::Reverse(*count), *language));
    sorted.into_iter().take(LANGUAGES).map(|(language, _)| language.to_owned()).collect()
}

fn commands(files: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let there = MANIFESTS.iter().filter(|(file, _)| files.contains(file));
    let mut commands: Vec<String> =
        there.flat_map(|(_, lines)| lines.iter().map(|line| (*line).to_owned())).collect();
    commands.dedup();
    if files.contains(&"package.json")
        && let Some(package) = read("package.json").and_then(|text| serde_json::from_str::<Value>(&text).ok())
        && let Some(scripts) = package["scripts"].as_object()
    {
        let mut names: Vec<&String> = scripts.keys().collect();
        names.sort_unstable();
        commands.extend(names.into_iter().take(SCRIPTS).map(|script| format!("npm run {script}")));
    }
    if let Some(makefile) = files.contains(&"Makefile").then(|| read("Makefile")).flatten() {
        let is_target =
            |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
        let targets = makefile.lines().filter_map(|line| Some(line.split_once(':')?.0)).filter(is_target);
        commands.extend(targets.take(SCRIPTS).map(|target| format!("make {target}")));
    }
    commands
}

/// The folders at the top, those with most files first.
fn folders<'f>(files: &[&'f str]) -> Vec<(&'f str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for folder in files.iter().filter_map(|file| Some(file.split_once('/')?.0)) {
        *counts.entry(folder).or_default() += 1;
    }
    let mut sorted: Vec<(&str, usize)> = counts.into_iter().collect();
    sorted.sort_by_key(|(folder, count)| (std::cmp::Reverse(*count), *folder));
    sorted
}

#[cfg(test)]
mod tests {
    use super::draft;

    #[test]
    fn a_draft_names_languages_commands_and_folders() {
        let files = ["Makefile", "README.md", "package.json", "src/a.ts", "src/b.ts", "tools/x.py"];
        let read = |file: &str| {
            Some(match file {
                "README.md" => "# Shop\n\nSells things over the counter.\n".to_owned(),
                "package.json" => r#"{"scripts": {"test": "jest", "build": "tsc"}}"#.to_owned(),
                _ => "VAR := 1\nrelease: build\n\techo\n.PHONY: release\n".to_owned(),
            })
        };
        let text = draft("shop", &files, &read);
        for part in [
            "# shop\n",
            "Sells things over the counter.",
            "Languages: TypeScript, Python.",
            "npm run build\nnpm run test\nmake release\n",
            "- `src/`: 2 files\n- `tools/`: 1 file\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!text.contains("make VAR") && !text.contains(".PHONY"), "{text}");
    }
}
