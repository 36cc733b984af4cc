//! Links and anchors of built pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use html5gum::{Token, Tokenizer};
use percent_encoding::percent_decode_str;

/// What a page has to do with others.
#[derive(Default)]
struct Page {
    /// What a link may point to in it.
    anchors: BTreeSet<String>,
    /// Where it links to.
    links: Vec<String>,
    /// Pictures without a text for those who do not see them.
    silent: Vec<String>,
}

/// What is wrong with the links of the pages in `folder` and below.
pub fn faults(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "html")) {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        pages.insert(file.as_path(), Page::new(&text));
    }
    let mut faults = Vec::new();
    for (file, page) in &pages {
        let name = file.strip_prefix(folder).unwrap_or(file).display();
        faults.extend(page.silent.iter().map(|picture| format!("{name}: the picture {picture} has no alt text")));
        for link in &page.links {
            if let Some(fault) = fault(folder, file, link, &pages) {
                faults.push(format!("{name}: {fault}"));
            }
        }
    }
    Ok(faults)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || format!("cannot list {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// What is wrong with `link` in `file`; links to other sites are not followed.
fn fault(folder: &Path, file: &Path, link: &str, pages: &BTreeMap<&Path, Page>) -> Option<String> {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    let path = path.split('?').next().unwrap_or_default();
    let scheme = path.split_once(':').map(|(scheme, _)| scheme);
    if path.starts_with("//") || scheme.is_some_and(|scheme| !scheme.contains('/')) {
        return None;
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
    let (Ok(path), Ok(anchor)) = (decoded(path), anchor.map(decoded).transpose()) else {
        return Some(format!("the link {link} is not UTF-8"));
    };
    let target = match path.strip_prefix('/') {
        Some(rest) => folder.join(rest),
        None if path.is_empty() => file.to_owned(),
        None => normal(&file.parent().unwrap_or(folder).join(path)),
    };
    if !target.starts_with(folder) || !target.exists() {
        return Some(format!("the link {link} leads nowhere"));
    }
    let anchor = anchor.filter(|anchor| !anchor.is_empty())?;
    match pages.get(target.as_path()) {
        Some(page) if page.anchors.contains(&anchor) => None,
        _ => Some(format!("the link {link} leads to a page without this anchor")),
    }
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

impl Page {
    fn new(html: &str) -> Page {
        let mut page = Page::default();
        for Ok(token) in Tokenizer::new(html) {
            let Token::StartTag(tag) = token else { continue };
            let get = |name: &[u8]| tag.attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
            page.anchors.extend(get(b"id"));
            let name: &[u8] = &tag.name;
            match name {
                b"a" | b"link" => page.links.extend(get(b"href")),
                b"img" => {
                    let source = get(b"src").unwrap_or_default();
                    if get(b"alt").is_none_or(|text| text.trim().is_empty()) {
                        page.silent.push(source.clone());
                    }
                    page.links.push(source);
                }
                b"script" | b"iframe" => page.links.extend(get(b"src")),
                _ => {}
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(pages: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in pages {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        faults(folder.path()).unwrap()
    }

    #[test]
    fn good_links_pass() {
        let pages = [
            (
                "a.html",
                "<h1 id='top'>A</h1> <a href='#top'>x</a> <a href='sub/b.html#deep%C3%A9'>x</a> <a href='#'>x</a>",
            ),
            (
                "sub/b.html",
                "<p id='deepé'><a href='../a.html?x#top'><img src='../c.svg' alt='c'></a> <a href='/a.html'>x</a>",
            ),
            ("c.svg", "<a href='nowhere'/>"),
            ("d.html", "<a href='https://example.com/none#x'>x</a> <a href='mailto:a@b'>x</a> <a href='//x/y'>x</a>"),
        ];
        assert_eq!(faults_of(&pages), [] as [&str; 0]);
    }

    #[test]
    fn bad_links_are_named() {
        for (html, said) in [
            ("<a href='none.html'>x</a>", "none.html"),
            ("<a href='#none'>x</a>", "#none"),
            ("<a href='b.html#none'>x</a>", "b.html#none"),
            ("<a href='b.svg#none'>x</a>", "b.svg#none"),
            ("<a href='../outside'>x</a>", "../outside"),
            ("<img src='none.png' alt='x'>", "none.png"),
            ("<img src='b.svg' alt=' '>", "alt text"),
            ("<script src='none.js'></script>", "none.js"),
            ("<a href='%FF'>x</a>", "UTF-8"),
        ] {
            let faults = faults_of(&[("a.html", html), ("b.html", "<p id='some'>"), ("b.svg", "")]);
            assert!(faults.len() == 1 && faults[0].starts_with("a.html") && faults[0].contains(said), "{faults:?}");
        }
    }
}
