//! `[upload]`: files that the provider is given before the order, one call for
//! each. Nothing is ordered by them, so they are repeated freely.

use serde_json::{Value, json};
use toml::Spanned;

use super::Cook;
use super::answers::Stage;
use super::calls::Upload;
use super::check::check_name;
use super::fault::{Checked, Fault};
use super::placeholder::{Datum, Handed, How, Names, Placeholder, Sort, Values};
use super::request::Request;
use super::schema::Recipe;
use crate::answer::Answer;
use crate::error::ProviderError;
use crate::order::{File, Order};
use crate::port::jobs::upload::before_the_order;
use crate::port::{Asked, Call, Step, Target};

/// The stage of the call that hands a file over.
const UPLOAD: &str = "upload";

impl Upload {
    /// The files of an order that are handed over so, in the order of their ids.
    pub(super) fn files<'a>(&self, values: &Values<'a>) -> impl Iterator<Item = &'a File> {
        let named = self.files.iter();
        named.flat_map(|name| match values.get(name.get_ref().as_str()) {
            Some(Datum::File(handed)) => vec![handed.file],
            Some(Datum::Files(files)) => files.iter().map(|handed| handed.file).collect(),
            _ => Vec::new(),
        })
    }

    /// Gives the files of an order the ids that they have by now.
    pub(super) fn name<'a>(&self, values: &mut Values<'a>, ids: &'a [Value]) {
        let mut ids = ids.iter();
        let mut named = |handed: &mut Handed<'a>| handed.id = ids.next();
        for name in &self.files {
            match values.get_mut(name.get_ref().as_str()) {
                Some(Datum::File(handed)) => named(handed),
                Some(Datum::Files(files)) => files.iter_mut().for_each(&mut named),
                _ => {}
            }
        }
    }

    /// The call for a file; `ids` are those of the files before it, `at_home`
    /// where the provider is at the recipe's own address.
    pub(super) fn call(
        &self,
        recipe: &Recipe,
        order: &Order,
        file: &File,
        ids: &[Value],
        at_home: bool,
    ) -> Result<Call, ProviderError> {
        let values = Values::from([
            ("file", Datum::File(Handed::new(file))),
            // Where each call wants a name of its own.
            ("number", Datum::Plain(json!(ids.len() + 1))),
            ("key", Datum::Plain(json!(order.key))),
            ("model", Datum::Plain(json!(order.model))),
        ]);
        let call = self.encoded().call(UPLOAD, recipe, &values)?;
        let call = call.with_memo(json!({"ids": ids}));
        let own = self.base_url.as_ref().filter(|_| at_home);
        Ok(match (own, &call.to) {
            (Some(own), Target::Path(path)) => {
                let address = format!("{}{path}", own.get_ref().trim_end_matches('/'));
                call.to(Target::Address(address))
            }
            _ => call,
        })
    }
}

impl Cook {
    /// What the answer to a call before the order leads to.
    pub(super) fn uploaded(
        &self,
        section: &Upload,
        order: &Order,
        asked: &Asked,
        answer: &Answer,
    ) -> Result<Step, ProviderError> {
        let mut ids = asked.memo["ids"].as_array().cloned().unwrap_or_default();
        let body = self.recipe.accepted(answer, Stage::Submission);
        let body = body.map_err(before_the_order)?;
        let id = section.id.scalars(&body).into_iter().next();
        let missing = || before_the_order(ProviderError::unreadable("the upload got no name"));
        ids.push(id.cloned().ok_or_else(missing)?);
        self.next(order, &ids).map(Step::next)
    }
}

impl Recipe {
    /// The files that are handed over before the order.
    pub(super) fn check_upload(&self, names: &Names<'_>) -> Checked {
        let files: &[Spanned<String>] = self.upload.as_ref().map_or(&[], |upload| &upload.files);
        for request in self.submit.requests() {
            for placeholder in request.placeholders() {
                let list = match placeholder.name.as_str() {
                    "reference" => "references",
                    name => name,
                };
                let is_uploaded = files.iter().any(|file| file.get_ref() == list);
                if placeholder.how == How::Uploaded && !is_uploaded {
                    let message = format!(
                        "{{{}:uploaded}} is not among the files of [upload]",
                        placeholder.name
                    );
                    return Err(Fault::new(&request.path.span(), message));
                }
            }
        }
        let Some(upload) = &self.upload else {
            return Ok(());
        };
        if let Some(url) = &upload.base_url {
            let host = url::Url::parse(url.get_ref()).ok();
            let host = host.as_ref().and_then(url::Url::host_str);
            if !host.is_some_and(|host| self.hosts.iter().any(|one| one == host)) {
                let message =
                    "base_url of [upload] needs its host among hosts, to be given the key";
                return Err(Fault::new(&url.span(), message));
            }
        }
        for file in files {
            check_name(file, names)?;
            let name = file.get_ref().as_str();
            if !matches!(names.get(name), Some(Sort::File | Sort::Files)) {
                return Err(Fault::new(&file.span(), format!("{name:?} is no file")));
            }
            let requests = self.submit.requests();
            let mut all = requests.iter().flat_map(Request::placeholders);
            let one = name.trim_end_matches('s');
            let is_used = |used: &Placeholder| {
                used.how == How::Uploaded && (used.name == name || used.name == one)
            };
            if !all.any(is_used) {
                let message = format!("the order does not say {{{name}:uploaded}}");
                return Err(Fault::new(&file.span(), message));
            }
        }
        let own = [
            ("file", Sort::File),
            ("number", Sort::Number),
            ("key", Sort::Text),
            ("model", Sort::Text),
        ];
        self.check_request(&upload.encoded(), &own.into())
    }
}
