/** The encoder of QR codes, in a part of its own. */
import { encode } from "uqr";

export const encodeQr: typeof encode = (text, options) => encode(text, options);
