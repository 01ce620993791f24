/** Our schemas as JSON Schema, for the OpenAPI document. */
import { z } from "zod";

const documented = z.registry<{ json: object }, z.core.$ZodType>();

/** How the document shows a schema that parses query text or several wire formats. */
export function documentedAs<Schema extends z.ZodType>(schema: Schema, json: object): Schema {
  documented.add(schema, { json });
  return schema;
}

export function toJsonSchema(schema: z.ZodType) {
  return z.toJSONSchema(schema, {
    // responses keep the schema they are validated with; objects stay open for fields of later versions
    io: "input",
    unrepresentable: "any",
    target: "draft-2020-12",
    override({ zodSchema, jsonSchema }) {
      const given = documented.get(zodSchema);
      if (!given) return;
      for (const key of Object.keys(jsonSchema)) if (key !== "description") delete jsonSchema[key];
      Object.assign(jsonSchema, given.json);
    },
  });
}
