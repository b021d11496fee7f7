export function Title(props: { text: string }): JSX.Element {
  const shown = props.text as string;
  return <h1 onClick={() => props.text?.trim()}>{shown}</h1>;
}
