//! `[upload]`: files that are uploaded before the order, one call for each. Uploads order nothing,
//! so they may be repeated freely.

use serde_json::{Value, json};
use toml::Spanned;

use super::RecipeAdapter;
use super::answers::AnswerStage;
use super::call_template::CallTemplate;
use super::calls::Upload;
use super::check::check_name;
use super::fault::{CheckResult, RecipeFault};
use super::placeholder::{
    OrderFile, Placeholder, TemplateValue, TemplateValues, ValueFormat, ValueKind, ValueNames,
};
use super::schema::Recipe;
use crate::error::ProviderError;
use crate::hosts::TrustedHosts;
use crate::order::{MediaFile, Order};
use crate::port::jobs::upload::as_upload_error;
use crate::port::{AdapterStep, Call, CallContext, CallTarget};
use crate::response::ProviderResponse;

/// The stage of the call that uploads a file.
const UPLOAD: &str = "upload";

impl Upload {
    /// The files of an order to upload, in the order of their ids.
    pub(super) fn files<'a>(
        &self,
        values: &TemplateValues<'a>,
    ) -> impl Iterator<Item = &'a MediaFile> {
        let names = self.files.iter();
        names.flat_map(|name| match values.get(name.get_ref().as_str()) {
            Some(TemplateValue::File(order_file)) => vec![order_file.file],
            Some(TemplateValue::Files(files)) => {
                files.iter().map(|order_file| order_file.file).collect()
            }
            _ => Vec::new(),
        })
    }

    /// Assigns the ids received so far to the files of an order.
    pub(super) fn assign_ids<'a>(&self, values: &mut TemplateValues<'a>, ids: &'a [Value]) {
        let mut ids = ids.iter();
        let mut assign = |order_file: &mut OrderFile<'a>| order_file.id = ids.next();
        for name in &self.files {
            match values.get_mut(name.get_ref().as_str()) {
                Some(TemplateValue::File(order_file)) => assign(order_file),
                Some(TemplateValue::Files(files)) => files.iter_mut().for_each(&mut assign),
                _ => {}
            }
        }
    }

    /// The call for a file; `ids` are those of the previous files; `uses_recipe_base_url`
    /// if the provider is at the recipe's own base URL.
    pub(super) fn call(
        &self,
        recipe: &Recipe,
        order: &Order,
        file: &MediaFile,
        ids: &[Value],
        uses_recipe_base_url: bool,
    ) -> Result<Call, ProviderError> {
        let values = TemplateValues::from([
            ("file", TemplateValue::File(OrderFile::new(file))),
            // For providers that want a different name for each file of an order.
            ("number", TemplateValue::Plain(json!(ids.len() + 1))),
            ("key", TemplateValue::Plain(json!(order.idempotency_key))),
            ("model", TemplateValue::Plain(json!(order.model))),
        ]);
        let call = self.call_template().call(UPLOAD, recipe, &values)?;
        let call = call.with_carried_data(json!({"ids": ids}));
        // An operator with another base URL does not want files and the key to be sent to the
        // original host.
        let upload_base_url = self.base_url.as_ref().filter(|_| uses_recipe_base_url);
        Ok(match (upload_base_url, &call.target) {
            (Some(upload_base_url), CallTarget::Path(path)) => {
                let address = format!("{}{path}", upload_base_url.get_ref().trim_end_matches('/'));
                call.with_target(CallTarget::Address(address))
            }
            _ => call,
        })
    }
}

impl RecipeAdapter {
    /// The next step after the answer to an upload.
    pub(super) fn read_upload(
        &self,
        section: &Upload,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let mut ids = context.carried_data["ids"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let body = self.recipe.accepted_body(answer, AnswerStage::Submission);
        // Nothing was ordered yet, so whatever failed can be tried on another route.
        let body = body.map_err(as_upload_error)?;
        let id = section.id.scalars(&body).into_iter().next();
        let missing = || as_upload_error(ProviderError::unreadable("the upload has no name"));
        ids.push(id.cloned().ok_or_else(missing)?);
        self.next(order, &ids).map(AdapterStep::next)
    }
}

impl Recipe {
    /// Checks the files that are uploaded before the order.
    pub(super) fn check_upload(&self, names: &ValueNames<'_>) -> CheckResult {
        let files: &[Spanned<String>] = self.upload.as_ref().map_or(&[], |upload| &upload.files);
        for request in self.submit.requests() {
            for placeholder in request.placeholders() {
                let list = match placeholder.name.as_str() {
                    "reference" => "references",
                    name => name,
                };
                let is_uploaded = files.iter().any(|file| file.get_ref() == list);
                if placeholder.format == ValueFormat::Uploaded && !is_uploaded {
                    let message = format!(
                        "{{{}:uploaded}} is not one of the files of [upload]",
                        placeholder.name
                    );
                    return Err(RecipeFault::new(&request.path.span(), message));
                }
            }
        }
        let Some(upload) = &self.upload else {
            return Ok(());
        };
        if let Some(url) = &upload.base_url {
            // A recipe without a base URL gets one from the operator, and uploads go there instead.
            let own_url = self.base_url.as_ref().unwrap_or(url).get_ref();
            let trusted = url::Url::parse(own_url)
                .map_err(|error| error.to_string())
                .and_then(|own_url| TrustedHosts::new(&own_url, self.hosts.clone()));
            let upload_url = url::Url::parse(url.get_ref()).ok();
            let is_trusted = trusted.ok().zip(upload_url);
            if !is_trusted.is_some_and(|(trusted, upload_url)| trusted.contain(&upload_url)) {
                let message = "the host of base_url in [upload] must be in hosts, because the key is sent to it";
                return Err(RecipeFault::new(&url.span(), message));
            }
        }
        for file in files {
            check_name(file, names)?;
            let name = file.get_ref().as_str();
            if !matches!(names.get(name), Some(ValueKind::File | ValueKind::Files)) {
                return Err(RecipeFault::new(
                    &file.span(),
                    format!("{name:?} is not a file"),
                ));
            }
            let requests = self.submit.requests();
            let mut all = requests.iter().flat_map(CallTemplate::placeholders);
            let singular = name.trim_end_matches('s');
            let is_used = |used: &Placeholder| {
                used.format == ValueFormat::Uploaded && (used.name == name || used.name == singular)
            };
            if !all.any(is_used) {
                let message = format!("the submission does not use {{{name}:uploaded}}");
                return Err(RecipeFault::new(&file.span(), message));
            }
        }
        let upload_values = [
            ("file", ValueKind::File),
            ("number", ValueKind::Number),
            ("key", ValueKind::Text),
            ("model", ValueKind::Text),
        ];
        self.check_request(&upload.call_template(), &upload_values.into())
    }
}
