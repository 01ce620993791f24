/** The framework with nothing of ours: what the other figures are compared with. */
import { Elysia } from "elysia";

const app = new Elysia().get("/", () => "hello").get("/json", () => ({ hello: "world" }));
app.listen({ hostname: "127.0.0.1", port: Number(process.env.PORT), reusePort: false });
