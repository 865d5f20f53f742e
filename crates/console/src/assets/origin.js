// The provenance of a file as text. Independent of the views.

/** @type {Record<string, string>} */
const STATUS = {
  none: "has no marks",
  unverified: "has marks that were not verified",
  invalid: "was changed after it was signed",
  valid: "is unchanged since it was signed, but no authority vouches for the signer",
  trusted: "is unchanged since it was signed",
  unreadable: "has a format whose marks cannot be read",
};
/** @type {Record<string, string>} */
const MARKS = {
  c2pa: "Content Credentials",
  remote_manifest: "remote Content Credentials",
  xmp: "XMP",
  iptc: "IPTC",
  bext: "broadcast extension",
  aigc: "AIGC label",
  watermark: "watermark of this gateway",
  label: "visible label",
};

/**
 * The provenance of a file as lines of names and values.
 * @param {any} provenance
 * @returns {[string, any][]}
 */
export function provenanceLines(provenance) {
  const lastSegment = (/** @type {string} */ uri) => uri && uri.split("/").pop();
  const lines = /** @type {[string, any][]} */ ([
    ["Origin", `The file ${STATUS[provenance.status] || provenance.status}.`],
    ["Signed by", provenance.signer],
    ["Program", provenance.generator],
    ["Source type", lastSegment(provenance.digital_source_type)],
    ["Marks", provenance.marks.map((/** @type {string} */ mark) => MARKS[mark] || mark).join(", ")],
  ]);
  return lines.filter(([, value]) => value);
}
