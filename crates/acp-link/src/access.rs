//! Who may open a WebSocket here.

use percent_encoding::percent_decode_str;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, ORIGIN};

/// What is demanded of who wants to come in. The default lets in every program, and no page of a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessControl {
    /// `Authorization: Bearer …`, or `?token=…` from a browser, which cannot send that.
    pub token: Option<String>,
    /// The pages that may connect, as browsers name them (`https://example.org`). A program that is no browser names
    /// none and is let in.
    pub origins: Vec<String>,
}

/// What is known of who came in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisitorInfo {
    /// The trace it belongs to, as its `traceparent` header says.
    pub traceparent: Option<String>,
}

impl AccessControl {
    /// Who it is, or why it may not come in.
    #[expect(clippy::result_large_err, reason = "the type is the handshake's")]
    pub(crate) fn open(&self, request: &Request) -> Result<VisitorInfo, ErrorResponse> {
        let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        if request.headers().get_all(ORIGIN).iter().count() > 1 {
            let words = "a browser names one origin, not several\n".to_owned();
            return Err(refusal(StatusCode::FORBIDDEN, words));
        }
        if let Some(origin) = request.headers().get(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            if !self.origins.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin))
            {
                let words = format!("pages of {origin:?} may not connect; allow them with --allow-origin\n");
                return Err(refusal(StatusCode::FORBIDDEN, words));
            }
        }
        if let Some(token) = &self.token {
            let bearer = text(AUTHORIZATION.as_str()).and_then(|value| {
                let (scheme, shown) = value.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then_some(shown.trim())
            });
            let query = request.uri().query().unwrap_or_default();
            // Browsers write what is odd in an address as %2B; people write it as it is.
            let asked = query.split('&').find_map(|pair| pair.strip_prefix("token="));
            let read = asked.and_then(|asked| percent_decode_str(asked).decode_utf8().ok());
            let shown = [bearer, asked, read.as_deref()];
            if !shown.into_iter().flatten().any(|shown| same_secret(shown, token)) {
                let words = "a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN\n".to_owned();
                return Err(refusal(StatusCode::UNAUTHORIZED, words));
            }
        }
        Ok(VisitorInfo { traceparent: text("traceparent").map(str::to_owned) })
    }
}

pub(crate) fn refusal(status: StatusCode, words: String) -> ErrorResponse {
    let mut refusal = ErrorResponse::new(Some(words));
    *refusal.status_mut() = status;
    refusal
}

/// Compares secrets in a time that does not tell where they differ.
#[must_use]
pub fn same_secret(shown: &str, secret: &str) -> bool {
    let pairs = shown.bytes().chain(std::iter::repeat(0)).zip(secret.bytes());
    let different = pairs.fold(0_u8, |different, (a, b)| different | (a ^ b));
    different == 0 && shown.len() == secret.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(
        access: &AccessControl,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<VisitorInfo, (u16, String)> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        access
            .open(&request)
            .map_err(|refusal| (refusal.status().as_u16(), refusal.body().clone().unwrap_or_default()))
    }

    #[test]
    fn a_token_is_taken_from_the_header_or_the_address() {
        let access = AccessControl { token: Some("s3cret".to_owned()), ..AccessControl::default() };
        assert!(opened(&access, "/acp", &[("authorization", "Bearer s3cret")]).is_ok());
        assert!(opened(&access, "/acp", &[("Authorization", "bearer  s3cret")]).is_ok());
        assert!(opened(&access, "/acp?a=b&token=s3cret", &[]).is_ok());
        let odd = AccessControl { token: Some("aB+/c=%".to_owned()), ..AccessControl::default() };
        for path in ["/acp?token=aB%2B%2Fc%3D%25", "/acp?token=aB+/c=%25", "/acp?token=aB+/c=%"] {
            assert!(opened(&odd, path, &[]).is_ok(), "{path}");
        }
        for (path, header) in
            [("/acp", ""), ("/acp", "Bearer s3cre"), ("/acp?token=s3crets", ""), ("/acp", "Basic s3cret")]
        {
            let refused = opened(&access, path, &[("authorization", header)]).expect_err(header);
            assert_eq!(refused.0, 401, "{path} {header}");
            assert!(refused.1.contains("Bearer TOKEN") && !refused.1.contains("s3cret"), "{}", refused.1);
        }
    }

    #[test]
    fn pages_are_let_in_by_name_and_programs_always() {
        let access = AccessControl { token: None, origins: vec!["https://good.example/".to_owned()] };
        assert!(opened(&access, "/acp", &[]).is_ok(), "no browser");
        assert!(opened(&access, "/acp", &[("origin", "https://good.example")]).is_ok());
        for page in ["https://evil.example", "null", "http://good.example", "https://good.example.evil"] {
            let refused = opened(&access, "/acp", &[("origin", page)]).expect_err(page);
            assert_eq!(refused.0, 403, "{page}");
            assert!(refused.1.contains("--allow-origin"), "{}", refused.1);
        }
        let twice = [("origin", "https://good.example"), ("origin", "https://evil.example")];
        for headers in [twice, [twice[1], twice[0]], [twice[0], twice[0]]] {
            assert_eq!(opened(&access, "/acp", &headers).expect_err("two origins").0, 403);
        }
        assert_eq!(
            opened(&AccessControl::default(), "/acp", &[("origin", "null")]).expect_err("a page").0,
            403
        );
    }

    #[test]
    fn a_trace_is_known_from_its_header() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let visitor = opened(&AccessControl::default(), "/acp", &[("traceparent", trace)]).expect("in");
        assert_eq!(visitor.traceparent.as_deref(), Some(trace));
    }
}
