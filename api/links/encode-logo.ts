/** A merchant's image as a logo: decoded and re-encoded, so that pages, receipts and e-mails only contain bytes that we produced. */
import { invalid } from "../../core/domain/errors.ts";

/** Size of the uploaded file; as base64 it is four thirds of that, below the limit of a body. */
export const UPLOAD_MAX_BYTES = 512 * 1024;
/** Larger images are refused by their header: a few bytes may claim gigabytes of pixels. */
const PIXELS_MAX = 2_048 * 2_048;
export const LOGO_MAX_BYTES = 64 * 1024;
/** As a browser's FileReader writes it. */
const DATA_URL = /^data:image\/[a-z]{1,10};base64,/;
const FORMATS: readonly string[] = ["png", "jpeg", "webp"];
/** Longest side, best first. The last one always fits: a byte a pixel and a palette. */
const ATTEMPTS = [
  { side: 256, palette: false },
  { side: 256, palette: true },
  { side: 128, palette: true },
] as const;

/** PNG of at most 64 kB, of base64 or a data URL. Throws VALIDATION_ERROR for anything but a PNG, JPEG or WebP image, or when it is too large. */
export async function encodeLogo(base64: string): Promise<Uint8Array> {
  const bytes = Buffer.from(base64.replace(DATA_URL, ""), "base64");
  if (bytes.length === 0) throw invalid("image", "must be a PNG, JPEG or WebP picture as base64");
  if (bytes.length > UPLOAD_MAX_BYTES)
    throw invalid("image", `must have at most ${UPLOAD_MAX_BYTES} bytes, got ${bytes.length}`);
  const open = () => new Bun.Image(bytes, { maxPixels: PIXELS_MAX });
  const { format } = await open().metadata().catch(refuse);
  if (!FORMATS.includes(format)) throw invalid("image", `must be a PNG, JPEG or WebP picture, got ${format}`);
  for (const { side, palette } of ATTEMPTS) {
    const encoded = await open()
      .resize(side, side, { fit: "inside", withoutEnlargement: true })
      .png({ compressionLevel: 9, palette })
      .bytes()
      .catch(refuse);
    if (encoded.length <= LOGO_MAX_BYTES) return encoded;
  }
  throw invalid("image", "cannot be compressed to 64 kB");
}

function refuse(cause: unknown): never {
  const code = (cause as { code?: unknown } | null)?.code;
  if (code === "ERR_IMAGE_TOO_MANY_PIXELS") throw invalid("image", `must have at most ${PIXELS_MAX} pixels`);
  throw invalid("image", "must be a PNG, JPEG or WebP picture as base64");
}
