//! The page, opened and clicked through in a real browser.

mod webdriver;

use acp_comply::Results;
use acp_report::{ReportFormat, ReportOptions, render};
use serde_json::json;
use std::path::Path;
use webdriver::Browser;

const SHOWN: &str =
    "return [...document.querySelectorAll('details.test')].filter(t => !t.hidden).map(t => t.id)";

/// Whether nothing is wider than the screen.
const FITS: &str = "return document.documentElement.scrollWidth <= innerWidth";

/// In how many columns the frames of a conversation stand.
fn columns(browser: &Browser) -> usize {
    let places = browser.script(
        "return [...document.querySelectorAll('[id=\"a0-cap.fs-off\"] .frame > summary')]\
         .map(s => Math.round(s.getBoundingClientRect().left))",
    );
    let places: std::collections::BTreeSet<String> =
        places.as_array().unwrap().iter().map(ToString::to_string).collect();
    places.len()
}

#[test]
fn the_page_can_be_filtered_opened_and_read() {
    if std::env::var("ACP_SKIP").is_ok_and(|skip| skip.split(',').any(|word| word == "browser")) {
        eprintln!("left out: ACP_SKIP names browser");
        return;
    }
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports/two-agents/results.json");
    let results = Results::from_json(&std::fs::read_to_string(results).unwrap()).unwrap();
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    std::fs::write(&page, render(&results, ReportFormat::Html, ReportOptions::default()).unwrap()).unwrap();
    let browser = Browser::start();
    browser.open(&format!("file://{}", page.display()));

    assert_eq!(browser.script("return document.title"), json!("ACP Compliance Report"));
    assert_eq!(browser.script(SHOWN).as_array().unwrap().len(), 10);

    // Filter by text, then by verdict.
    browser.type_into("#text", "fs-off");
    assert_eq!(browser.script(SHOWN), json!(["a0-cap.fs-off", "a1-cap.fs-off"]));
    assert_eq!(browser.script("return document.getElementById('shown').textContent"), json!("2 of 10 shown"));
    browser.type_into("#verdict", "not passed");
    assert_eq!(browser.script(SHOWN), json!(["a0-cap.fs-off"]));

    // Failures come first, whatever their place in the suite.
    let order = "return [...document.querySelectorAll('#a0 details.test')].map(t => t.dataset.verdict)";
    let order = browser.script(order);
    let order: Vec<&str> = order.as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    let last_bad = order.iter().rposition(|it| ["FAIL", "ERROR"].contains(it)).unwrap();
    assert!(order[..last_bad].iter().all(|it| ["FAIL", "ERROR"].contains(it)), "{order:?}");

    // Open a test, then a frame of its conversation.
    let frame = "const f = document.querySelector('[id=\"a0-cap.fs-off\"] details.frame.marked'); ";
    assert_eq!(browser.script(&format!("{frame} return f.checkVisibility()")), json!(false));
    browser.click("[id='a0-cap.fs-off'] > summary");
    assert_eq!(browser.script(&format!("{frame} return f.checkVisibility()")), json!(true));
    browser.click("[id='a0-cap.fs-off'] details.frame.marked > summary");
    let text = browser.script(&format!("{frame} return f.querySelector('pre').innerText"));
    assert!(text.as_str().unwrap().contains("/box/<greeting>.txt"), "{text}");
    let link = "return document.querySelector('[id=\"a0-cap.fs-off\"] dd a').href";
    assert!(browser.script(link).as_str().unwrap().starts_with("https://agentclientprotocol.com/protocol/"));

    // Lanes stand side by side on a wide screen and below each other on a phone; nothing is wider than the screen.
    let size = |width: u32| {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        browser.own("Emulation.setDeviceMetricsOverride", &metrics);
    };
    size(1400);
    assert!(columns(&browser) >= 2, "at least client and agent");
    assert_eq!(browser.script(FITS), json!(true));
    size(390);
    assert_eq!(columns(&browser), 1);
    assert_eq!(browser.script(FITS), json!(true));
    size(1400);
    let text = browser.script("return document.querySelector('[id=\"a0-cap.fs-off\"]').innerText");
    assert!(text.as_str().unwrap().contains("--test cap.fs-off --verbose"), "{text}");

    // Words of a conversation are found when they are asked for.
    browser.script(
        "document.getElementById('verdict').value = ''; const t = document.getElementById('text'); \
         t.value = 'fs/read_text_file sessionId'; t.dispatchEvent(new Event('input'))",
    );
    assert_eq!(browser.script(SHOWN).as_array().unwrap().len(), 0);
    browser.click("#deep");
    assert!(!browser.script(SHOWN).as_array().unwrap().is_empty());
    browser.click("#deep");

    // A link to a test opens it below the filter bar.
    browser.open(&format!("file://{}#a0-term.use", page.display()));
    let place = "const t = document.getElementById('a0-term.use'); return [t.open, \
                 t.getBoundingClientRect().top >= document.querySelector('.filters').getBoundingClientRect().bottom]";
    // The page opens it when it hears of the new address.
    let began = std::time::Instant::now();
    while browser.script(place)[0] != true {
        assert!(began.elapsed().as_secs() < 60, "the link opens nothing");
    }
    assert_eq!(browser.script(place), json!([true, true]));

    // Light and dark differ, and what failed is open on paper.
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.script(ground);
    browser.own(
        "Emulation.setEmulatedMedia",
        &json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] }),
    );
    assert_ne!(browser.script(ground), light);
    browser.script("dispatchEvent(new Event('beforeprint'))");
    let open = "return [...document.querySelectorAll('details.test')].filter(t => t.open).length";
    assert_eq!(browser.script(open), json!(5));
    assert_eq!(browser.complaints(), json!([]));
}
