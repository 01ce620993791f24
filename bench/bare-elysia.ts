/** The bare framework: the baseline of the other figures. */
import { Elysia } from "elysia";

const app = new Elysia().get("/", () => "hello").get("/json", () => ({ hello: "world" }));
app.listen({ hostname: "127.0.0.1", port: Number(process.env.PORT), reusePort: false });
