#!/usr/bin/env node
// A bridge to Discord: tells the daemon what people say, and brings them what the agent answers.
//
//   SESSIOND_URL=http://127.0.0.1:7433 SESSIOND_TOKEN=… DISCORD_TOKEN=… ./discord.mjs
//
// The daemon's token has the role bridge, channel discord and permission approve. README.md names the bot's intents.
// Nothing is kept here: the bridge may die at any moment, and goes on where it was when it is started again.
import {setTimeout as sleep} from 'node:timers/promises';
import {Client, GatewayIntentBits as Intents, Partials} from 'discord.js';

const {SESSIOND_URL = 'http://127.0.0.1:7433', SESSIOND_TOKEN, AGENT = 'main', LEASE_MS = '30000'} = process.env;
const {DISCORD_TOKEN, DISCORD_API_URL = 'https://discord.com/api'} = process.env; // the last one is for tests

// One call of the daemon. It is repeated while the daemon is away or busy, however long that takes. A refusal throws.
async function daemon(method, path, body) {
  const headers = {Authorization: `Bearer ${SESSIOND_TOKEN}`, 'Content-Type': 'application/json'};
  for (;;) {
    const request = {method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(60_000)};
    const reply = await fetch(SESSIOND_URL + path, request).catch(() => null);
    const answer = reply?.status === 204 ? null : await reply?.json().catch(() => undefined);
    if (reply?.ok && answer !== undefined) return answer;
    if (reply?.status < 500 && reply.status !== 429) throw new Error(`${answer?.code}: ${answer?.detail}`);
    await sleep(1000);
  }
}
const pathOf = (agent, key) => `/v1/agents/${agent}/sessions/${encodeURIComponent(key)}`;
const log = (error) => console.error(error.message);

const {Guilds, GuildMessages, GuildMessageReactions, DirectMessages, DirectMessageReactions, MessageContent} = Intents;
const client = new Client({
  intents: [Guilds, GuildMessages, GuildMessageReactions, DirectMessages, DirectMessageReactions, MessageContent],
  partials: [Partials.Channel], // direct channels that Discord has not named since our start
  rest: {api: DISCORD_API_URL},
});

// --- In: what people say, and what they do to it later ---

// What happens goes to the daemon in the order in which it happened.
let last = Promise.resolve();
const inOrder = (work) => (last = last.then(work).catch(log));

// The conversation: a person, a channel, or a thread of a channel.
async function where(channelId) {
  const channel = await client.channels.fetch(channelId);
  const here = {agent: AGENT, channel: 'discord', accountId: client.user.id};
  return {...here, peer: channel.recipientId ?? (channel.isThread() ? channel.parentId : channelId)};
}

const plain = (text = '') => text.replaceAll(new RegExp(`<@!?${client.user.id}>`, 'g'), '').trim() || '(a file)';
client.on('messageCreate', (message) => inOrder(async () => {
  if (message.author.bot || message.system) return;
  const stop = plain(message.content).toLowerCase() === 'stop';
  const told = await daemon('POST', '/v1/inbound', {
    ...(await where(message.channelId)),
    chatType: message.inGuild() ? 'channel' : 'direct',
    threadId: message.channel.isThread() ? message.channelId : undefined,
    from: {id: message.author.id, name: message.author.displayName, username: message.author.username},
    text: plain(message.content),
    mentioned: message.mentions.users.has(client.user.id),
    messageId: message.id, // the same message twice is one message
    ...(stop && {activate: false}),
  });
  const abort = `${pathOf(AGENT, told.sessionKey)}/abort`;
  if (stop && !told.duplicate) await daemon('POST', abort, {reason: `${message.author.username} said stop`});
}));

// What is told before its message waits for it; a reaction to what was said before the daemon knew us is left. These are
// the gateway's own events: discord.js withholds what happens to a message that it has not seen since its start.
const change = (what, {channel_id: channelId}, body) => inOrder(async () => {
  await daemon('POST', `/v1/inbound/${what}`, {...(await where(channelId)), ...body}).catch((error) => {
    if (!error.message.startsWith('message_not_found')) throw error;
  });
});
client.ws.on('MESSAGE_UPDATE', (event) => {
  const said = {text: plain(event.content), mentioned: event.mentions?.some(({id}) => id === client.user.id) ?? false};
  if (event.edited_timestamp && !event.author?.bot) change('edits', event, {messageId: event.id, ...said});
});
client.ws.on('MESSAGE_DELETE', (event) => change('deletes', event, {messageId: event.id}));
for (const [name, removed] of [['MESSAGE_REACTION_ADD', false], ['MESSAGE_REACTION_REMOVE', true]])
  client.ws.on(name, (event) => {
    const {emoji, user_id: id, message_id: messageId} = event;
    if (id !== client.user.id) change('reactions', event, {messageId, emoji: emoji.name, from: {id}, removed});
  });

// --- Out: what the agent answers ---

// The keys of channels and groups say so; any other session is a direct conversation.
const channelOf = ({key, to, threadId}) =>
  /:(channel|group):/.test(key) ? client.channels.fetch(threadId ?? to) : client.users.createDM(to);

// Discord takes a message with the same nonce once, for some minutes.
const send = (channel, content, nonce, more) =>
  channel.send({content, nonce, enforceNonce: true, allowedMentions: {parse: ['users']}, ...more});

async function deliver(delivery) {
  const {deliveryId, attempt, text = '', mediaUrls = []} = delivery;
  const parts = [];
  try {
    const channel = await channelOf(delivery);
    for (const part of [text, ...mediaUrls].join('\n').match(/[^]{1,2000}/gu)) // Discord takes no longer ones
      parts.push((await send(channel, part, deliveryId + (parts.length || ''))).id);
  } catch (error) {
    const never = [10003, 10013, 50001, 50007, 50013].includes(error.code); // unknown, or it may not write there
    const reason = {code: String(error.code ?? 'error'), message: error.message};
    return daemon('POST', `/v1/deliveries/${deliveryId}/nack`, {attempt, error: reason, ...(never && {final: true})});
  }
  return daemon('POST', `/v1/deliveries/${deliveryId}/ack`, {platformMessageId: parts[0], parts});
}

// Claims what is to be sent, one message of a conversation at a time. Unless acked, it comes again after its lease.
async function deliverAll() {
  const here = {agent: AGENT, channel: 'discord', accountId: client.user.id};
  const claimed = await daemon('POST', '/v1/deliveries/claim', {...here, waitMs: 25_000, leaseMs: Number(LEASE_MS)});
  await Promise.all((claimed?.data ?? []).map(deliver));
}

// Asks in the conversation whether the agent may use a tool; a button answers. When a run begins, the bot types.
const asked = new Set();
async function follow() {
  const open = await daemon('GET', '/v1/approvals?open=true&channel=discord');
  for (const {id, agent, key, runId, tool, args} of open.data.filter((approval) => !asked.has(approval.id))) {
    const {replyTo} = await daemon('GET', `${pathOf(agent, key)}/runs/${runId}`);
    const button = (word, style) => ({type: 2, style, label: word, custom_id: `${word} ${id}`});
    const components = [{type: 1, components: [button('allow', 3), button('deny', 4)]}];
    const text = `May I use ${tool}? ${JSON.stringify(args)}`.slice(0, 1900);
    const nonce = id.replaceAll('-', '').slice(0, 25); // Discord takes no longer ones
    if (replyTo?.channel === 'discord') await send(await channelOf({key, ...replyTo}), text, nonce, {components});
    asked.add(id);
  }
  const types = 'approval.requested,run.started';
  const page = await daemon('GET', `/v1/events?poll=1&types=${types}&channel=discord&after=${open.asOf}`);
  for (const {key, data} of page.data)
    if (data.replyTo?.channel === 'discord') await (await channelOf({key, ...data.replyTo})).sendTyping();
}
client.on('interactionCreate', async (click) => {
  const [decision, id] = click.customId.split(' ');
  const open = await daemon('GET', '/v1/approvals?open=true&channel=discord');
  const {agent, key} = open.data.find((approval) => approval.id === id) ?? {};
  const reason = `${click.user.username} in Discord`;
  const answer = key && (await daemon('POST', `${pathOf(agent, key)}/approvals/${id}`, {decision, reason}));
  await click.update({content: `${click.message.content} (${answer?.decision ?? 'too late'})`, components: []}).catch(log);
});

async function forever(work) {
  for (;;) await work().catch((error) => sleep(1000, log(error)));
}
client.on('error', log);
client.once('clientReady', () => [follow, deliverAll].forEach(forever));
await client.login(DISCORD_TOKEN);
