// A certified identity provider for the tests of signing in to the console: node provider.mjs PORT CONSOLE, with commands on standard input.
//   CONSOLE is the address of the console, the only one to which users are sent back, and the only page that may make requests.
// The provider signs tokens for the resource https://tarry.example as JWTs; without a resource its access tokens are opaque.
import { createInterface } from "node:readline";
import { Provider } from "oidc-provider";

const [port, home] = process.argv.slice(2);
const issuer = `http://localhost:${port}`;
let seconds = 600;
console.info = console.error; // its warnings; standard output has one JSON object per line

const provider = new Provider(issuer, {
    clients: [{
        client_id: "console", token_endpoint_auth_method: "none", application_type: "native", grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"], redirect_uris: [home], post_logout_redirect_uris: [home],
    }],
    clientBasedCORS: (context, origin) => origin === new URL(home).origin,
    conformIdTokenClaims: false,
    claims: { openid: ["sub", "scope", "topics"] },
    findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id, scope: "push read admin", topics: "*" }) }),
    extraTokenClaims: () => ({ topics: "*" }),
    scopes: ["openid", "offline_access", "push", "consume", "read", "admin"],
    issueRefreshToken: (context, client, code) => code.scopes.has("offline_access"),
    ttl: { AccessToken: () => seconds, IdToken: () => seconds },
    features: {
        devInteractions: { enabled: true },
        revocation: { enabled: true },
        resourceIndicators: {
            enabled: true,
            getResourceServerInfo: (context, resource) => ({ scope: "push consume read admin", audience: resource === "https://other.example" ? "other" : "tarry", accessTokenFormat: "jwt", accessTokenTTL: seconds, jwt: { sign: { alg: "RS256" } } }),
        },
    },
    pkce: { required: () => true },
});
provider.on("server_error", (context, error) => console.error(error));
for (const kind of ["authorization.success", "grant.success", "grant.revoked", "end_session.success"]) provider.on(kind, (context) => console.log(JSON.stringify({ event: kind, grant: context?.oidc?.params?.grant_type ?? null })));
for (const kind of ["authorization.error", "grant.error"]) provider.on(kind, (context, error) => console.log(JSON.stringify({ event: kind, error: error.error_description ?? error.message })));

/** Sends the response of one endpoint in other words, once a command wants it. @type {Record<string, any>} */
const forged = {};
provider.use(async (context, next) => {
    await next();
    const change = forged[context.path];
    if (change && context.body && typeof context.body === "object") context.body = { ...context.body, ...change };
});

createInterface({ input: process.stdin }).on("line", (line) => {
    const command = JSON.parse(line);
    if (command.seconds) seconds = command.seconds;
    if (command.forge) Object.assign(forged, command.forge);
    console.log(JSON.stringify({ done: true }));
}).on("close", () => process.exit(0));
provider.listen(Number(port), "127.0.0.1", () => console.log(JSON.stringify({ listening: issuer })));
