/** Why no file can be made of what was asked for, in words for its owner: no attempt could. */
export class ExportRefusal extends Error {
  override readonly name = "ExportRefusal";
}
