// The npm `openai` client through `wattle gateway`: what it accepts without complaint is what "OpenAI-compatible" means.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import OpenAI from 'openai';

const [wattle, engine] = process.argv.slice(2);
const children = [];

async function start(file, args, pattern) {
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout })) {
    const match = line.match(pattern);
    if (match) return { child, match };
  }
  throw new Error(`${file} ended before it was ready`);
}

async function ready(url) {
  for (;;) {
    const answer = await fetch(url).catch(() => null);
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function main() {
  const upstream = await start(engine, ['--tokens', '5'], /^(\d+)$/);
  const { child: gateway, match } = await start(
    wattle,
    ['gateway', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--model', 'm', '--max-body-bytes', '100000',
      '--worker', `http://127.0.0.1:${upstream.match[1]}`],
    /http:\/\/127\.0\.0\.1:(\d+), admin on http:\/\/127\.0\.0\.1:(\d+)/);
  const [, port, admin] = match;
  await ready(`http://127.0.0.1:${port}/health`);
  const client = new OpenAI({ apiKey: 'none', baseURL: `http://127.0.0.1:${port}/v1`, maxRetries: 0 });
  const messages = [{ role: 'user', content: 'hello' }];

  const models = await client.models.list();
  assert.deepEqual(models.data.map((m) => m.id), ['m']);

  const stream = await client.chat.completions.create(
    { model: 'm', messages, stream: true, stream_options: { include_usage: true } });
  let text = '';
  let usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, ' hi hi hi hi hi');
  assert.equal(usage.completion_tokens, 5);

  const whole = await client.chat.completions.create({ model: 'm', messages });
  assert.equal(whole.choices[0].message.content, ' hi hi hi hi hi');
  const completion = await client.completions.create({ model: 'm', prompt: 'hello', max_tokens: 5 });
  assert.equal(completion.choices[0].text, ' hi hi hi hi hi');

  await assert.rejects(client.chat.completions.create({ model: 'unknown', messages }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
    return true;
  });
  await assert.rejects(client.chat.completions.create({ model: 'm', messages: 'no array' }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'messages');
    return true;
  });
  await assert.rejects(client.completions.create({ model: 'm', prompt: 'x'.repeat(200000) }),
    (error) => error.status === 413);

  // The engine goes away: a typed error, not a hang.
  upstream.child.stdin.end();
  await new Promise((resolve) => upstream.child.once('exit', resolve));
  await assert.rejects(client.chat.completions.create({ model: 'm', messages }),
    (error) => error instanceof OpenAI.InternalServerError && [502, 503].includes(error.status));

  const metrics = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text();
  assert.match(metrics, /wattle_gateway_requests_total\{fate="finished"\} 3\n/);
  gateway.kill('SIGTERM');
  const code = await new Promise((resolve) => gateway.once('exit', resolve));
  assert.equal(code, 0);
}

try {
  await main();
  console.log('ok');
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  for (const child of children) if (child.exitCode === null) child.kill('SIGKILL');
}
