// An OpenID provider on a port of loopback, which signs by a key of a given name: node provider.js PORT KEY_NAME
import { generateKeyPairSync } from 'node:crypto';
import Provider from 'oidc-provider';

const [port, kid] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const groups = { ann: ['research', 'everybody'], bob: ['everybody'] };
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'dpproxy',
    redirect_uris: ['http://127.0.0.1:9/done'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
  }],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid, alg: 'RS256', use: 'sig' }] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  scopes: ['openid', 'email', 'groups'],
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: groups[id] ?? [] }),
  }),
  cookies: { keys: ['a test'] },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
