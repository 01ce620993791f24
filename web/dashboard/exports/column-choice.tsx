/** Which columns a file has, in which order and with which titles. */
import { useState } from "preact/hooks";
import { useLoad } from "../frame/load.ts";
import { say } from "../frame/texts.ts";
import { Button, Choice, Field } from "../parts/controls.tsx";
import { Loading } from "../parts/forms.tsx";

type Column = { column: string; title: string };
type Columns = readonly Column[] | null;
type Known = { column: string; title: string };

/** The initial columns. */
const FIRST = ["date", "kind", "description", "gross", "fee", "net", "currency"];
const METADATA = "metadata.";

type Props = { value: Columns; onInput: (columns: Column[] | null) => void };

export function ColumnChoice({ value, onInput }: Props) {
  const loaded = useLoad("GET /v1/export-profiles/columns");
  return (
    <Loading of={loaded} rows={2}>
      {({ data: { columns: known } }) => (
        <>
          <Choice
            label={say("Columns")}
            value={value ? "chosen" : ""}
            onInput={(text) =>
              onInput(text ? known.filter(({ column }) => FIRST.includes(column)).map(plain) : null)
            }
            options={[
              ["", say("All columns")],
              ["chosen", say("Selected columns, with your own titles")],
            ]}
          />
          {value && <Chosen value={value} known={known} onInput={onInput} />}
        </>
      )}
    </Loading>
  );
}

const plain = ({ column, title }: Known): Column => ({ column, title });

type ChosenProps = {
  value: readonly Column[];
  known: readonly Known[];
  onInput: (columns: Column[]) => void;
};

function Chosen({ value, known, onInput }: ChosenProps) {
  const [key, setKey] = useState("");
  const nameOf = (name: string) => known.find(({ column }) => column === name)?.title ?? name;
  const move = (from: number, by: number) => {
    const next = [...value];
    next.splice(from + by, 0, ...next.splice(from, 1));
    onInput(next);
  };
  const left = known.filter(({ column }) => !value.some((one) => one.column === column));
  const mayAddMetadata = key.trim() !== "" && !value.some(({ column }) => column === METADATA + key.trim());
  const addMetadata = () => {
    onInput([...value, { column: METADATA + key.trim(), title: key.trim() }]);
    setKey("");
  };
  return (
    <div>
      <ol class="rows flush">
        {value.map(({ column, title }, index) => {
          const name = nameOf(column);
          return (
            <li key={column}>
              <span class="what">
                <Field
                  label={name}
                  value={title}
                  onInput={(text) => onInput(value.with(index, { column, title: text }))}
                  required
                  maxLength={100}
                />
              </span>
              <span>
                <Button
                  kind="quiet"
                  label={say("Move {name} up", { name })}
                  isOff={index === 0}
                  onClick={() => move(index, -1)}
                >
                  ↑
                </Button>
                <Button
                  kind="quiet"
                  label={say("Move {name} down", { name })}
                  isOff={index === value.length - 1}
                  onClick={() => move(index, 1)}
                >
                  ↓
                </Button>
                <Button
                  kind="quiet"
                  label={say("Remove {name}", { name })}
                  isOff={value.length === 1}
                  onClick={() => onInput(value.filter((_, at) => at !== index))}
                >
                  ×
                </Button>
              </span>
            </li>
          );
        })}
      </ol>
      <Choice
        label={say("Add a column")}
        value=""
        onInput={(name) => onInput([...value, ...known.filter(({ column }) => column === name).map(plain)])}
        options={[["", say("Choose")] as const, ...left.map(({ column, title }) => [column, title] as const)]}
      />
      <details>
        <summary>{say("A column of your links' metadata")}</summary>
        {/* Enter adds the column; it does not submit the surrounding form */}
        <fieldset
          class="checks"
          aria-label={say("A column of your links' metadata")}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            if (mayAddMetadata) addMetadata();
          }}
        >
          <Field label={say("Key of the metadata")} value={key} onInput={setKey} maxLength={40} />
          <Button isOff={!mayAddMetadata} onClick={addMetadata}>
            {say("Add a column")}
          </Button>
        </fieldset>
      </details>
    </div>
  );
}
