// The branch that a model is shown (view=llm), beside the whole.
import { pathOf, withQuery, type Place, type Schemas } from '../../api/client';
import { Badge } from '../../ui/basics';
import { text } from '../../ui/format';
import { Markdown } from '../../ui/markdown';
import { Empty, Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';

type Shown = Schemas['ModelMessage'];

function Content({ content }: { content: unknown }) {
  if (typeof content === 'string') return <Markdown source={content} />;
  const parts = Array.isArray(content) ? (content as Record<string, unknown>[]) : [];
  return (
    <>
      {parts.map((part, n) =>
        typeof part.text === 'string' ? (
          <Markdown key={n} source={part.text} />
        ) : part.type === 'toolCall' ? (
          <div key={n}>
            <strong>{text(part.name)}</strong>
            <pre class="code" tabIndex={0}>
              {JSON.stringify(part.arguments, null, 1)?.slice(0, 4000)}
            </pre>
          </div>
        ) : (
          <pre key={n} class="code" tabIndex={0}>
            {JSON.stringify(part, null, 1).slice(0, 4000)}
          </pre>
        ),
      )}
    </>
  );
}

function One({ message }: { message: Shown }) {
  return (
    <article class={`llm ${message.role}`}>
      <header>
        <strong>{message.role}</strong>
        {message.summary && <Badge tone="info">summary</Badge>}
        {message.synthetic && <Badge>made by the daemon</Badge>}
        {message.status && message.status !== 'ok' && <Badge tone="bad">{message.status}</Badge>}
      </header>
      <Content content={message.content} />
    </article>
  );
}

export function ModelView({ place, topic }: { place: Place; topic: string }) {
  const path = withQuery(pathOf(place, '/messages'), { view: 'llm', topic });
  const { data, error, again } = useAsk<Schemas['ModelView']>(
    path,
    event => event.key === place.key && event.agent === place.agent && /^(message|context|session)\./.test(event.type),
  );
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading lines={6} />;
  const all = [...(data.system ?? []), ...data.data];
  return (
    <section class="model-view" aria-label="What the model sees">
      <header>
        <h2>What the model sees</h2>
        <span class="soft num">
          {all.length} messages{data.pruned?.length ? `, ${data.pruned.length} shortened` : ''}
          {data.repaired?.length ? `, ${data.repaired.length} repaired` : ''}
        </span>
      </header>
      <div class="model-list" tabIndex={0} role="region" aria-label="Messages that the model is shown">
        {all.length ? all.map((message, n) => <One key={n} message={message} />) : <Empty title="Nothing yet" />}
      </div>
    </section>
  );
}
