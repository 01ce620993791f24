/** Shortens an OpenAPI document: equal responses become components, and an object with all fields of another refers to it. */
import { isDeepStrictEqual } from "node:util";

type Json = Record<string, unknown>;
type Parameter = { name?: string } & Json;
type Operation = { operationId: string; responses: Record<string, Json>; parameters?: Parameter[] };
type ObjectSchema = { properties?: Json; required?: string[] } & Json;

/** A reference takes half of this. */
const SHARED_BYTES_MIN = 100;
/** Parameters are shared when longer than almost two references, because a component repeats the name. */
const REFERENCE_SLACK = 20;
const SCHEMAS = "#/components/schemas/";

/** Returns the components to add; `operations` refer to them afterwards. */
export function shareAnswers(operations: readonly Operation[]): Json {
  const uses = new Map<string, Operation[]>();
  for (const operation of operations)
    for (const answer of Object.values(operation.responses)) {
      const text = JSON.stringify(answer);
      uses.set(text, [...(uses.get(text) ?? []), operation]);
    }
  const shared: Json = {};
  for (const [text, users] of uses) {
    if (users.length < 2 || text.length < SHARED_BYTES_MIN) continue;
    const [{ operationId = "" } = {}] = users;
    const name = `${capitalize(operationId)}Answer`;
    if (name in shared) continue;
    shared[name] = JSON.parse(text);
    for (const { responses } of users)
      for (const [status, answer] of Object.entries(responses))
        if (JSON.stringify(answer) === text) responses[status] = { $ref: `#/components/responses/${name}` };
  }
  return shared;
}

function capitalize(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** Returns the components to add: a parameter that several operations share, under its own name or that of the first operation. */
export function shareParameters(operations: readonly Operation[]): Json {
  const uses = new Map<string, Operation[]>();
  for (const operation of operations)
    for (const parameter of operation.parameters ?? []) {
      const text = JSON.stringify(parameter);
      if (parameter.name) uses.set(text, [...(uses.get(text) ?? []), operation]);
    }
  const shared: Json = {};
  // the one that most operations take gets the plain name
  for (const [text, users] of [...uses].sort(([, a], [, b]) => b.length - a.length)) {
    const [{ operationId = "" } = {}] = users;
    const parameter: Parameter = JSON.parse(text);
    const { name: own = "" } = parameter;
    const name = own in shared ? `${operationId}${capitalize(own)}` : own;
    const reference = { $ref: `#/components/parameters/${name}` };
    if (users.length < 2 || text.length < 2 * JSON.stringify(reference).length - REFERENCE_SLACK) continue;
    shared[name] = parameter;
    for (const user of users) {
      const { parameters = [] } = user;
      user.parameters = parameters.map((one) => (JSON.stringify(one) === text ? reference : one));
    }
  }
  return shared;
}

/** An object with all the fields of another one, and more. */
export function extendSchemas(schemas: Json): Json {
  const known = Object.entries(schemas) as [string, ObjectSchema][];
  return Object.fromEntries(
    known.map(([name, schema]) => {
      const base = known
        .filter(([other, part]) => other !== name && isPartOf(part, schema))
        .sort(
          ([, a], [, b]) => Object.keys(b.properties ?? {}).length - Object.keys(a.properties ?? {}).length,
        )[0];
      return [name, base ? extend(schema, base[0], base[1]) : schema];
    }),
  );
}

const FIELDS_MIN = 5;

function isPartOf(part: ObjectSchema, whole: ObjectSchema): boolean {
  const { properties: own = {}, required: ownRequired = [], ...partRest } = part;
  const { properties = {}, required = [], ...rest } = whole;
  const names = Object.keys(own);
  if (names.length < FIELDS_MIN || names.length >= Object.keys(properties).length) return false;
  if (!isDeepStrictEqual({ ...partRest, description: "" }, { ...rest, description: "" })) return false;
  return names.every(
    (name) =>
      isDeepStrictEqual(own[name], properties[name]) &&
      ownRequired.includes(name) === required.includes(name),
  );
}

function extend(
  { properties = {}, required = [], ...rest }: ObjectSchema,
  name: string,
  base: ObjectSchema,
): Json {
  const isNew = (field: string) => !(field in (base.properties ?? {}));
  const further = {
    ...rest,
    properties: Object.fromEntries(Object.entries(properties).filter(([field]) => isNew(field))),
    required: required.filter(isNew),
  };
  return { allOf: [{ $ref: `${SCHEMAS}${name}` }, further] };
}
