// What a file says of its origin, in words. Knows no view.

/** @type {Record<string, string>} */
const STATUS = {
  none: "carries no mark", unverified: "carries marks that were not verified", invalid: "was changed since it was signed",
  valid: "is as it was signed, by someone whom nobody vouches for", trusted: "is as it was signed",
  unreadable: "is of a kind whose marks cannot be read",
};
/** @type {Record<string, string>} */
const MARKS = {
  c2pa: "Content Credentials", remote_manifest: "Content Credentials elsewhere", xmp: "XMP", iptc: "IPTC", bext: "broadcast extension",
  aigc: "AIGC label", watermark: "our watermark", label: "visible label",
};

/**
 * As lines of names and values.
 * @param {any} told
 * @returns {[string, any][]}
 */
export function provenanceLines(told) {
  const last = (/** @type {string} */ uri) => uri && uri.split("/").pop();
  const lines = /** @type {[string, any][]} */ ([
    ["Origin", `The file ${STATUS[told.status] || told.status}.`], ["Signed by", told.signer], ["Program", told.generator],
    ["Source type", last(told.digital_source_type)], ["Marks", told.marks.map((/** @type {string} */ mark) => MARKS[mark] || mark).join(", ")],
  ]);
  return lines.filter(([, value]) => value);
}
