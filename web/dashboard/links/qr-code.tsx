/** A QR code, always black on white with a quiet zone: many readers accept nothing else. Its encoder is loaded when it is first needed. */

import { useEffect, useState } from "preact/hooks";
import { pathOf } from "../../qr/path.ts";

type Encode = typeof import("uqr").encode;

const QUIET_ZONE = 4;

export function QrCode({ text, label }: { text: string; label: string }) {
  const [encode, setEncode] = useState<Encode>();
  useEffect(() => void import("./encode-qr.ts").then((part) => setEncode(() => part.encodeQr)), []);
  if (!encode) return <div class="qr" aria-hidden="true" />;
  const { size, data } = encode(text, { ecc: "M", border: QUIET_ZONE });
  return (
    <svg
      class="qr"
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label={label}
      shape-rendering="crispEdges"
    >
      <rect width={size} height={size} fill="#fff" />
      <path fill="#000" d={pathOf(data)} />
    </svg>
  );
}
