#!/usr/bin/env node
// A bridge to Slack: tells the daemon what people say, and brings them what the agent answers.
//
//   SESSIOND_URL=http://127.0.0.1:7433 SESSIOND_TOKEN=… SLACK_BOT_TOKEN=xoxb-… SLACK_APP_TOKEN=xapp-… ./slack.mjs
//
// The daemon's token has the role bridge, channel slack and permission approve. README.md names the Slack app's scopes.
// Nothing is kept here: the bridge may die at any moment, and goes on where it was when it is started again.
import {setTimeout as sleep} from 'node:timers/promises';
import bolt from '@slack/bolt';

const {SESSIOND_URL = 'http://127.0.0.1:7433', SESSIOND_TOKEN, AGENT = 'main', LEASE_MS = '30000'} = process.env;
const {SLACK_BOT_TOKEN, SLACK_APP_TOKEN, SLACK_API_URL: slackApiUrl} = process.env; // the last one is for tests

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

// Bolt acks an event before our handlers see it, and handles several at a time. We take one after another, and ack it
// when the daemon has it: otherwise Slack sends it again.
class Receiver extends bolt.SocketModeReceiver {
  init(app, last = Promise.resolve()) {
    const take = async (event) => {
      await app.processEvent({...event, ack: async () => {}});
      await event.ack();
    };
    const isEvent = (event) => event.body.type === 'event_callback'; // not a button
    const inOrder = (event) => (last = last.catch(() => {}).then(() => take(event)));
    super.init({processEvent: (event) => (isEvent(event) ? inOrder(event) : app.processEvent(event))});
  }
}
const app = new bolt.App({
  token: SLACK_BOT_TOKEN,
  receiver: new Receiver({appToken: SLACK_APP_TOKEN, installerOptions: {clientOptions: {slackApiUrl}}}),
  // The daemon says when a message is sent again; a client that waits by itself would outlive its lease.
  clientOptions: {slackApiUrl, retryConfig: {retries: 0}, rejectRateLimitedCalls: true},
});
const {user_id: me, team_id: accountId} = await app.client.auth.test();

// --- In: what people say, and what they do to it later ---

// The conversation. Slack's ids of direct channels begin with D; the other side is then the person.
const here = {agent: AGENT, channel: 'slack', accountId};
const where = (channel, user) => ({...here, peer: channel.startsWith('D') ? user : channel});
const plain = (text = '') =>
  text.replaceAll(`<@${me}>`, '').trim().replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
const said = ({text}) => ({text: plain(text) || '(a file)', mentioned: text?.includes(`<@${me}>`) ?? false});
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const pathOf = (agent, key) => `/v1/agents/${agent}/sessions/${encodeURIComponent(key)}`;

// What is told before its message waits for it; a reaction to what was said before the daemon knew us is left.
const change = (what, body) =>
  daemon('POST', `/v1/inbound/${what}`, body).catch((error) => {
    if (!error.message.startsWith('message_not_found')) throw error;
  });

app.event('message', async ({event}) => {
  const {channel, channel_type: type, subtype, message, previous_message: previous} = event;
  if (subtype === 'message_changed') {
    if (message.text === previous?.text || message.bot_id) return; // a preview of a link was added, or it is ours
    await change('edits', {...where(channel, message.user), messageId: message.ts, ...said(message)});
  } else if (subtype === 'message_deleted') {
    await change('deletes', {...where(channel, previous?.user), messageId: event.deleted_ts});
  } else if (!event.bot_id && event.user && [undefined, 'file_share', 'thread_broadcast'].includes(subtype)) {
    const stop = plain(event.text).toLowerCase() === 'stop';
    const told = await daemon('POST', '/v1/inbound', {
      ...where(channel, event.user),
      chatType: {im: 'direct', mpim: 'group'}[type] ?? 'channel',
      threadId: event.thread_ts,
      from: {id: event.user},
      ...said(event),
      messageId: event.ts, // the same message twice is one message
      ...(stop && {activate: false}),
    });
    const abort = `${pathOf(AGENT, told.sessionKey)}/abort`;
    if (stop && !told.duplicate) await daemon('POST', abort, {reason: `${event.user} said stop`});
  }
});

app.event(/^reaction_(added|removed)$/, async ({event: {type, user, reaction, item}}) => {
  const body = {emoji: reaction, from: {id: user}, removed: type === 'reaction_removed'};
  await change('reactions', {...where(item.channel, user), messageId: item.ts, ...body});
});

// --- Out: what the agent answers ---

// A message that is sent again has the same id.
const send = (to, threadId, text, id, more) =>
  app.client.chat.postMessage({channel: to, thread_ts: threadId ?? undefined, text, client_msg_id: id, ...more});

async function deliver({deliveryId, attempt, to, threadId, text = '', mediaUrls = []}) {
  const answer = [text, ...mediaUrls].join('\n').match(/[^]{1,3500}/gu); // Slack shortens what is longer
  const parts = [];
  try {
    for (const part of answer)
      parts.push((await send(to, threadId, escaped(part), deliveryId + (parts.length || ''))).ts);
  } catch (error) {
    const code = error.data?.error ?? error.code ?? 'error';
    const never = ['channel_not_found', 'user_not_found', 'not_in_channel', 'is_archived'].includes(code);
    const when = never ? {final: true} : {retryAfterMs: error.retryAfter && 1000 * error.retryAfter};
    const reason = {code, message: error.message};
    return daemon('POST', `/v1/deliveries/${deliveryId}/nack`, {attempt, error: reason, ...when});
  }
  return daemon('POST', `/v1/deliveries/${deliveryId}/ack`, {platformMessageId: parts[0], parts});
}

// Claims what is to be sent, one message of a conversation at a time. Unless acked, it comes again after its lease.
async function deliverAll() {
  const claimed = await daemon('POST', '/v1/deliveries/claim', {...here, waitMs: 25_000, leaseMs: Number(LEASE_MS)});
  await Promise.all((claimed?.data ?? []).map(deliver));
}

// Asks in the conversation whether the agent may use a tool; a button answers.
const asked = new Set();
async function askPeople() {
  const open = await daemon('GET', '/v1/approvals?open=true&channel=slack');
  for (const {id, agent, key, runId, tool, args} of open.data.filter((approval) => !asked.has(approval.id))) {
    const {replyTo} = await daemon('GET', `${pathOf(agent, key)}/runs/${runId}`);
    const text = escaped(`May I use ${tool}? ${JSON.stringify(args)}`.slice(0, 2500));
    const value = `${pathOf(agent, key)}/approvals/${id}`;
    const button = (word) => ({type: 'button', action_id: word, value, text: {type: 'plain_text', text: word}});
    const actions = {type: 'actions', elements: ['allow', 'deny'].map(button)};
    const blocks = [{type: 'section', text: {type: 'mrkdwn', text}}, actions];
    if (replyTo?.channel === 'slack') await send(replyTo.to, replyTo.threadId, text, id, {blocks});
    asked.add(id);
  }
  await daemon('GET', `/v1/events?poll=1&types=approval.requested&channel=slack&after=${open.asOf}`);
}
app.action(/^(allow|deny)$/, async ({ack, action: {action_id: decision, value}, body: {user, channel, message}}) => {
  await ack();
  const answer = await daemon('POST', value, {decision, reason: `${user.id} in Slack`});
  const text = `${message.text} (${answer.decision})`;
  await app.client.chat.update({channel: channel.id, ts: message.ts, text, blocks: []});
});

async function forever(work) {
  for (;;) await work().catch((error) => sleep(1000, console.error(error.message)));
}
await app.start();
forever(askPeople);
forever(deliverAll);
