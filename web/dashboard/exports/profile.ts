/** A saved export as the API returns it. */
import type { Answer } from "../frame/service.ts";

export type Profile = Answer<"GET /v1/export-profiles">["data"]["profiles"][number];
