/** PNG files for uploads, byte by byte: also ones whose header lies. */
import { crc32, deflateSync } from "node:zlib";

type Picture = {
  width: number;
  height: number;
  /** Red, green, blue, opacity of a pixel. */
  pixel?: (x: number, y: number) => readonly [number, number, number, number];
  /** What the header says instead of the real size. */
  claims?: { width: number; height: number };
};

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

export function makePng({ width, height, pixel = () => [11, 80, 230, 255], claims }: Picture): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(claims?.width ?? width, 0);
  header.writeUInt32BE(claims?.height ?? height, 4);
  // 8 bits a channel, with opacity
  header[8] = 8;
  header[9] = 6;
  const rows = Buffer.alloc((width * 4 + 1) * height);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) rows.set(pixel(x, y), y * (width * 4 + 1) + 1 + x * 4);
  const parts = [
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("tEXt", Buffer.from("Comment\0hidden")),
    chunk("IEND", Buffer.alloc(0)),
  ];
  return Buffer.concat([SIGNATURE, ...parts]);
}

function chunk(type: string, content: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), content]);
  const frame = Buffer.alloc(8);
  frame.writeUInt32BE(content.length, 0);
  frame.writeUInt32BE(crc32(body), 4);
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
}

/** A round mark on a clear ground. */
export const roundLogo = (side = 200): Buffer =>
  makePng({
    width: side,
    height: side,
    pixel: (x, y) => {
      const isInside = Math.hypot(x - side / 2, y - side / 2) < side / 2 - 2;
      const isBar = Math.abs(x - y) < side / 12;
      if (!isInside) return [0, 0, 0, 0];
      return isBar ? [255, 255, 255, 255] : [196, 30, 90, 255];
    },
  });
