/** Reading a body without ever holding more of it than is allowed, whether its length was announced or not. */
import { ServiceError } from "../../core/domain/errors.ts";

export const BODY_MAX_BYTES = 1_048_576;

/** Throws 413 for a body whose announced length is too large; nothing of it is read. */
export function refuseLargeBody(request: Request): void {
  if (Number(request.headers.get("content-length") ?? 0) > BODY_MAX_BYTES) throw tooLarge();
}

/** The body as text. One that comes in chunks is counted as it comes, and no longer read once it is too large: 413. */
export async function readBodyText(request: Request): Promise<string> {
  // a server takes no more of a body than was announced, and that was looked at
  if (!request.body || request.headers.has("content-length")) return request.text();
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of request.body) {
    bytes += piece.byteLength;
    if (bytes > BODY_MAX_BYTES) throw tooLarge();
    pieces.push(piece);
  }
  return new TextDecoder().decode(Buffer.concat(pieces));
}

function tooLarge(): ServiceError {
  return new ServiceError("VALIDATION_ERROR", `The body is larger than ${BODY_MAX_BYTES} bytes`, {
    status: 413,
    details: { field: "body", issue: "too_large" },
  });
}
