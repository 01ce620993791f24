/**
 * Embeddings, overrides and isolates of the bidirectional algorithm (UAX 9): they can display the text after them in another order than it
 * was written in.
 */
const DIRECTION_CONTROLS = "[\\u202a-\\u202e\\u2066-\\u2069]";

export function hasDirectionControls(text: string): boolean {
  return new RegExp(DIRECTION_CONTROLS).test(text);
}

export function removeDirectionControls(text: string): string {
  return text.replace(new RegExp(DIRECTION_CONTROLS, "g"), "");
}
