/** Thrown when the requested file can never be created, however often it is retried; its owner is shown the message. */
export class ExportRefusal extends Error {
  override readonly name = "ExportRefusal";
}
