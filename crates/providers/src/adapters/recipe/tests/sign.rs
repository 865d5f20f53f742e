//! Signatures, compared with those of the official SDKs for the same call.

use std::time::{Duration, UNIX_EPOCH};

use http::Method;
use serde::Deserialize;
use url::Url;

use super::super::sign::SignatureMethod;
use crate::port::{CallSigner as _, OutgoingCall};
use crate::secret::Secret;

fn sign(signing: &str, url: &str, body: &str) -> Vec<(&'static str, String)> {
    #[derive(Deserialize)]
    struct Auth {
        sign: SignatureMethod,
    }
    let auth: Auth = toml::from_str(signing).unwrap();
    let signer = auth.sign.signer(&Secret::new("id:secret-key")).unwrap();
    let url = Url::parse(url).unwrap();
    let call = OutgoingCall {
        method: &Method::POST,
        url: &url,
        mime: Some("application/json"),
        body: body.as_bytes(),
        now: UNIX_EPOCH + Duration::from_secs(1_795_000_000),
    };
    signer.sign(&call).unwrap()
}

#[test]
fn tencent_wants_tc3() {
    let headers = sign(
        r#"sign = { method = "tc3", service = "vclm" }"#,
        "https://vclm.tencentcloudapi.com/",
        r#"{"Prompt":"a lake"}"#,
    );
    let proof = "TC3-HMAC-SHA256 Credential=id/2026-11-18/vclm/tc3_request, SignedHeaders=content-type;host, \
                 Signature=f3591c507020217a9069638b4aa853981d9a0f45661d8f26fdec903f82a667e2";
    assert_eq!(
        headers,
        [
            ("x-tc-timestamp", "1795000000".to_owned()),
            ("authorization", proof.to_owned())
        ]
    );
}

#[test]
fn the_query_is_signed_in_the_order_of_its_names() {
    let headers = |query: &str| {
        let url = format!("https://vclm.tencentcloudapi.com/?{query}");
        sign(r#"sign = { method = "tc3", service = "vclm" }"#, &url, "{}")
    };
    assert_eq!(headers("a=1+2&b=3"), headers("b=3&a=1%202"));
    assert_ne!(headers("a=1"), headers("a=2"));
}

#[test]
fn a_credential_is_a_pair() {
    let adapter = super::adapter_of(&super::signing_recipe()).unwrap();
    for wrong in ["", "id", "id:", ":key"] {
        let secret = Secret::new(wrong);
        assert!(adapter.fault_of_secret(&secret).is_some(), "{wrong:?}");
        assert!(adapter.authorize(&secret, UNIX_EPOCH).is_err(), "{wrong:?}");
    }
    assert_eq!(adapter.fault_of_secret(&Secret::new("id:key")), None);
}
