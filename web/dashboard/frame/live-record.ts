/** Writes the links and transactions in events into the responses on the screen. Pure. */
export type LiveRecord = { id: string; createdAt?: string; detectedAt?: string; parentId?: string | null };

/**
 * The response with the record's new state, or the response itself when it does not contain the record. `newestMax`: rows of the newest
 * unfiltered page, to which a newer record is prepended; 0 for any other response.
 */
export function withRecord(answer: unknown, record: LiveRecord, newestMax: number): unknown {
  if (!answer || typeof answer !== "object") return answer;
  if (Array.isArray(answer)) return withRow(answer, record, newestMax);
  if ((answer as Partial<LiveRecord>).id === record.id) return { ...answer, ...record };
  const name = record.detectedAt === undefined ? "links" : "transactions" in answer ? "transactions" : "data";
  const inner = (answer as Record<string, unknown>)[name];
  const changed = withRecord(inner, record, newestMax);
  return changed === inner ? answer : { ...answer, [name]: changed };
}

function withRow(rows: readonly LiveRecord[], record: LiveRecord, newestMax: number): readonly LiveRecord[] {
  const at = rows.findIndex(({ id }) => id === record.id);
  const [newest] = rows;
  if (at >= 0) return rows.with(at, { ...rows[at], ...record });
  // a use of a reusable link is listed only with that link
  if (newestMax === 0 || record.parentId || (newest && timeOf(record) <= timeOf(newest))) return rows;
  return [record, ...rows].slice(0, newestMax);
}

const timeOf = ({ detectedAt, createdAt }: LiveRecord) => Date.parse(detectedAt ?? createdAt ?? "");
