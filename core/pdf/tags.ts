/** The structure of a tagged PDF (PDF 32000-1, 14.7 and 14.8): what is written inside a callback becomes an element of the document. */

export type Bounds = [left: number, top: number, right: number, bottom: number];
type Draw = () => void;
/** A header is a row header unless specified otherwise. `columns`: how many it spans. */
export type Cell = [type: "TH" | "TD", draw: Draw, about?: { scope?: "Row" | "Column"; columns?: number }];
export type TagTable = { row(cells: readonly Cell[]): void; end(): void };
export type Tags = {
  block(type: "H1" | "H2" | "P", draw: Draw): void;
  figure(alt: string, bbox: Bounds, draw: Draw): void;
  /** Rules, bands and frames mean nothing to a screen reader. */
  artifact(draw: Draw): void;
  openTable(): TagTable;
  end(): void;
};

/** Options that make the document tagged as PDF/UA requires. `subset` exists in pdfkit but not in its types. */
export function taggedOptions(language: string): object {
  return { lang: language, displayTitle: true, tagged: true, pdfVersion: "1.7", subset: "PDF/UA" };
}

/** `flush` writes what was drawn so far: operators must be between their element's marks. */
export function openTags(doc: PDFKit.PDFDocument, flush: () => void): Tags {
  const root = doc.struct("Document");
  doc.addStructure(root);

  function content(type: string, draw: Draw) {
    flush();
    const marked = doc.markStructureContent(type);
    draw();
    flush();
    doc.endMarkedContent();
    return marked;
  }

  function cellOf([type, draw, about = {}]: Cell) {
    const options = type === "TH" ? { scope: about.scope ?? "Row" } : {};
    const cell = doc.struct(type, options as object, [content(type, draw)]);
    // written with its row
    if (about.columns) dataOf(cell).A = { O: "Table", ColSpan: about.columns };
    return cell;
  }

  return {
    block(type, draw) {
      root.add(doc.struct(type, {}, [content(type, draw)]));
    },
    figure(alt, bbox, draw) {
      root.add(doc.struct("Figure", { alt, bbox } as { alt: string }, [content("Figure", draw)]));
    },
    artifact(draw) {
      flush();
      doc.markContent("Artifact", { type: "Layout" });
      draw();
      flush();
      doc.endMarkedContent();
    },
    openTable() {
      const table = doc.struct("Table");
      root.add(table);
      return {
        row(cells) {
          const row = doc.struct("TR");
          table.add(row);
          for (const cell of cells) row.add(cellOf(cell));
          row.end();
        },
        end: () => table.end(),
      };
    },
    end() {
      flush();
      root.end();
    },
  };
}

/** Draws the same without any structure. */
export function withoutTags(): Tags {
  return {
    block: (_, draw) => draw(),
    figure: (_, __, draw) => draw(),
    artifact: (draw) => draw(),
    openTable: () => ({
      row(cells) {
        for (const [, draw] of cells) draw();
      },
      end() {},
    }),
    end() {},
  };
}

/** The dictionary of an element, which the types omit. */
function dataOf(element: PDFKit.PDFStructureElement): Record<string, unknown> {
  return (element as unknown as { dictionary: { data: Record<string, unknown> } }).dictionary.data;
}
