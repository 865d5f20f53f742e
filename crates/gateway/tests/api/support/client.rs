//! A caller of a gateway. Whatever it asks, the answer is checked for what
//! every answer must have.

use bytes::Bytes;
use reqwest::{Method, RequestBuilder, header::HeaderMap};
use serde_json::Value;

use crate::support::schema;

/// A caller with or without a key.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
    pub(crate) key: Option<String>,
    /// Whether the document of the default settings describes the answers.
    pub(crate) documented: bool,
}

/// An answer that was read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    /// `Null` when the body is not JSON.
    pub(crate) json: Value,
}

impl Client {
    pub(crate) fn new(base: &str, key: Option<&str>) -> Self {
        install_tls();
        Self {
            http: reqwest::Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                // A body waits unread for its turn. On a busy machine that is longer than reqwest's 30 s.
                .tcp_user_timeout(None)
                .build()
                .unwrap(),
            base: base.to_owned(),
            key: key.map(ToOwned::to_owned),
            documented: true,
        }
    }

    /// The same caller with another key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..self.clone()
        }
    }

    pub(crate) fn without_key(&self) -> Self {
        Self {
            key: None,
            ..self.clone()
        }
    }

    /// A request to a path of the gateway or to an absolute address.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let address = if path.starts_with("http") {
            path.to_owned()
        } else {
            format!("{}{path}", self.base)
        };
        let request = self.http.request(method, address);
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let request = request.build().unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let sent = request.try_clone();
        let response = self.http.execute(request).await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let bytes = response.bytes().await.unwrap();
        let is_json = headers
            .get("content-type")
            .is_some_and(|kind| kind.to_str().unwrap().starts_with("application/json"));
        let json = if is_json && method != Method::HEAD {
            serde_json::from_slice(&bytes).unwrap()
        } else {
            Value::Null
        };
        let answer = Answer {
            status,
            headers,
            bytes,
            json,
        };
        answer.check_frame(&method, &path);
        if self.documented && !answer.json.is_null() {
            schema::check(method.as_str(), &path, status, &answer.json);
        }
        // Only accepted requests are checked: the body of a refused one may be very large.
        let sent = sent.filter(|_| self.documented && matches!(status, 200 | 202));
        let sent = sent.as_ref().and_then(|sent| sent.body()?.as_bytes());
        if let Some(sent) = sent.and_then(|bytes| serde_json::from_slice(bytes).ok()) {
            schema::check_request(method.as_str(), &path, &sent);
        }
        answer
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Asserts a success and returns the body.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json
    }

    /// Asserts that something was accepted, as `/api/v1` says it, and returns the body.
    #[track_caller]
    pub(crate) fn accepted(self) -> Value {
        assert_eq!(self.status, 202, "{}", self.text());
        self.json
    }

    /// The code of an error. In the dialect of `/api/v1` it is in `metadata`.
    fn code(&self) -> Option<&str> {
        let error = &self.json["error"];
        error["code"].as_str().or_else(|| {
            assert_eq!(error["code"], self.status, "{}", self.text());
            error["metadata"]["code"].as_str()
        })
    }

    /// Asserts an error with this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> &Self {
        assert_eq!(
            (self.status, self.code()),
            (status, Some(code)),
            "{}",
            self.text()
        );
        self
    }

    /// Asserts that the error's `param` is this field.
    #[track_caller]
    pub(crate) fn on_param(&self, param: &str) -> &Self {
        assert_eq!(self.json["error"]["param"], param, "{}", self.text());
        self
    }

    pub(crate) fn message(&self) -> &str {
        self.json["error"]["message"].as_str().unwrap()
    }

    /// The whole body as text, however long.
    pub(crate) fn whole_text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(2000)]).into_owned()
    }

    /// Checks what every answer must have, whatever it is about.
    fn check_frame(&self, method: &Method, path: &str) {
        let context = format!("{method} {path}: {} {}", self.status, self.text());
        let id = self.header("x-request-id").expect(&context);
        assert!((1..=128).contains(&id.len()), "{context}");
        assert_eq!(
            self.header("x-content-type-options"),
            Some("nosniff"),
            "{context}"
        );
        assert!(self.header("cache-control").is_some(), "{context}");
        assert!(
            self.header("access-control-allow-origin").is_none(),
            "{context}"
        );
        let transient = matches!(self.status, 429 | 500 | 503);
        assert_eq!(transient, self.header("retry-after").is_some(), "{context}");
        if self.status < 400 || method == Method::HEAD {
            return;
        }
        let error = &self.json["error"];
        // A replayed answer names the request that it answered first.
        if self.header("idempotent-replayed").is_none() {
            assert_eq!(error["request_id"], id, "{context}");
        }
        let texts = [
            ("message", error["message"].as_str()),
            ("type", error["type"].as_str()),
            ("code", self.code()),
        ];
        for (field, text) in texts {
            assert!(
                text.is_some_and(|text| !text.is_empty()),
                "{field}: {context}"
            );
        }
        let is_number = error["code"].is_number();
        assert_eq!(is_number, path.starts_with("/api/v1/"), "{context}");
        let param = error.get("param").expect(&context);
        assert!(param.is_null() || param.is_string(), "{context}");
        let retry = self.header("x-should-retry");
        assert_eq!(
            retry,
            Some(if transient { "true" } else { "false" }),
            "{context}"
        );
        assert_eq!(
            self.status == 401,
            self.header("www-authenticate").is_some(),
            "{context}"
        );
        assert_eq!(
            self.status == 405,
            self.header("allow").is_some(),
            "{context}"
        );
        for secret in ["sk-mg-", "/tmp/", ".rs:", "panicked", "/root/"] {
            assert!(!self.text().contains(secret), "{secret} in {context}");
        }
    }
}

/// Chooses the cryptography of the TLS library, which must precede its first use.
pub(crate) fn install_tls() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
