//! Content blocks, times and costs.

use acp_proto::Side;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cx::Cx;
use crate::json::Json;
use crate::rule::Rule;
use crate::state::{Content, State};

/// A block that the agent sends.
pub(crate) fn block(cx: &mut Cx<'_>, block: Json<'_>, pointer: &str) {
    let side = Side::Agent;
    let (data, mime, at) = match block.get_str("type").as_deref() {
        Some("image" | "audio") => (block.get("data"), block.get_str("mimeType"), format!("{pointer}/data")),
        Some("resource") => {
            let Some(resource) = block.get("resource") else { return };
            let Some(blob) = resource.get("blob") else { return };
            (Some(blob), None, format!("{pointer}/resource/blob"))
        }
        _ => return,
    };
    cx.saw(Rule::BadBase64, side);
    if data.and_then(Json::str).is_some_and(|data| STANDARD.decode(data.as_bytes()).is_err()) {
        cx.breach(Rule::BadBase64, side, "the data is not base64").at(at);
    }
    if mime.is_some_and(|mime| !mime.contains('/')) {
        cx.breach(Rule::BadBase64, side, "the mimeType is no MIME type").at(format!("{pointer}/mimeType"));
    }
}

/// A prompt's blocks: only what the agent takes.
pub(crate) fn prompt(state: &State, cx: &mut Cx<'_>, params: Json<'_>) -> Content {
    let side = Side::Client;
    let mut content = Content::default();
    for (index, block) in params.get("prompt").into_iter().flat_map(Json::items).enumerate() {
        let (advertised, word) = match block.get_str("type").as_deref() {
            Some("image") => {
                content.image |= state.agent.image;
                (state.agent.image, "image")
            }
            Some("audio") => {
                content.audio |= state.agent.audio;
                (state.agent.audio, "audio")
            }
            Some("resource") => {
                content.embedded |= state.agent.embedded;
                (state.agent.embedded, "embeddedContext")
            }
            Some("resource_link") => {
                content.link = true;
                continue;
            }
            Some("text") => {
                content.text = true;
                continue;
            }
            _ => continue,
        };
        cx.saw(Rule::ContentUnadvertised, side);
        cx.saw_id("C-INIT-07");
        if !advertised {
            content.other = true;
            let message = format!(
                "the prompt has content that needs promptCapabilities.{word}, which the agent did not advertise"
            );
            cx.breach(Rule::ContentUnadvertised, side, message)
                .also(&["C-INIT-07"])
                .at(format!("/params/prompt/{index}/type"));
        }
    }
    content
}

/// session_info_update
pub(crate) fn info(cx: &mut Cx<'_>, update: Json<'_>) {
    let Some(time) = update.some("updatedAt").and_then(Json::str) else { return };
    if !is_iso_8601(&time) {
        let message = format!("updatedAt {time:?} is not ISO 8601");
        cx.breach(Rule::BadTimestamp, Side::Agent, message).names("INFO-01").at("/params/update/updatedAt");
    }
}

/// usage_update
pub(crate) fn usage(cx: &mut Cx<'_>, update: Json<'_>) {
    cx.saw(Rule::BadCurrency, Side::Agent);
    let Some(currency) = update.some("cost").and_then(|cost| cost.get_str("currency")) else { return };
    if is_misspelt_currency(&currency) {
        let message = format!("the currency {currency:?} is not written as an ISO 4217 code");
        cx.breach(Rule::BadCurrency, Side::Agent, message).at("/params/update/cost/currency");
    }
}

/// Whether this means money but is no ISO 4217 code: `usd`, `$`, `US$`. The schema also allows units that are not money, such as
/// `credits`.
fn is_misspelt_currency(unit: &str) -> bool {
    let is_code = unit.len() == 3 && unit.bytes().all(|byte| byte.is_ascii_alphabetic());
    let has_sign = unit.contains(['$', '\u{20ac}', '\u{a3}', '\u{a5}']);
    has_sign || (is_code && unit.bytes().any(|byte| byte.is_ascii_lowercase()))
}

/// `2026-11-15`, `2026-11-15T08:30:00Z`, with fractions and offsets.
pub(crate) fn is_iso_8601(text: &str) -> bool {
    let (date, time) =
        text.split_once(['T', 't', ' ']).map_or((text, None), |(date, time)| (date, Some(time)));
    let number = |part: &str, len: usize, max: u32| {
        part.len() == len
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|n| n <= max)
    };
    let mut parts = date.split('-');
    let good_date = number(parts.next().unwrap_or_default(), 4, 9999)
        && number(parts.next().unwrap_or_default(), 2, 12)
        && number(parts.next().unwrap_or_default(), 2, 31)
        && parts.next().is_none();
    let Some(time) = time else { return good_date };
    let clock_end = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(clock_end);
    let clock = clock.split_once('.').map_or(clock, |(clock, _)| clock);
    let mut parts = clock.split(':');
    let good_clock = number(parts.next().unwrap_or_default(), 2, 24)
        && number(parts.next().unwrap_or_default(), 2, 59)
        && parts.next().is_none_or(|seconds| number(seconds, 2, 60));
    let zone_digits = zone.trim_start_matches(['+', '-']).replace(':', "");
    let good_zone = matches!(zone, "" | "Z" | "z")
        || (zone_digits.len() == 4 || zone_digits.len() == 2)
            && zone_digits.bytes().all(|b| b.is_ascii_digit());
    good_date && good_clock && good_zone
}

#[cfg(test)]
mod tests {
    use super::is_iso_8601;

    #[test]
    fn iso_8601_times_are_told_from_others() {
        for good in
            ["2026-11-15", "2026-11-15T08:30:00Z", "2026-11-15T08:30:00.123456+01:00", "2026-11-15T08:30Z"]
        {
            assert!(is_iso_8601(good), "{good}");
        }
        for bad in [
            "",
            "yesterday",
            "1731659400",
            "15.11.2026",
            "2026-11-15T25:61:00Z",
            "2026-13-01",
            "2026-11-15Tnoon",
        ] {
            assert!(!is_iso_8601(bad), "{bad}");
        }
    }
}
