/** Thrown when no file can be made of what was requested, however often it is tried; the message is shown to its owner. */
export class ExportRefusal extends Error {
  override readonly name = "ExportRefusal";
}
