/** A QR code, always black on white with a quiet zone: many readers take no other. Its encoder is loaded when it is first needed. */
import { useEffect, useState } from "preact/hooks";

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

/** One rectangle for each run of dark modules in a row. */
function pathOf(rows: readonly (readonly boolean[])[]): string {
  return rows
    .map((row, y) => {
      let path = "";
      for (let x = 0; x < row.length; x++) {
        if (!row[x]) continue;
        const start = x;
        while (row[x + 1]) x++;
        path += `M${start} ${y}h${x - start + 1}v1h-${x - start + 1}z`;
      }
      return path;
    })
    .join("");
}
