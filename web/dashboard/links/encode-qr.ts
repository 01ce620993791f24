/** The QR code encoder, in a chunk of its own. */
import { encode } from "uqr";

export const encodeQr: typeof encode = (text, options) => encode(text, options);
