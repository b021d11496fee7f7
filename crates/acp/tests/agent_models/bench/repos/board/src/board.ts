export interface Card {
  id: number;
  title: string;
  done: boolean;
}

export class Board {
  private cards: Card[] = [];

  add(title: string): Card {
    const card = { id: this.cards.length + 1, title, done: false };
    this.cards.push(card);
    return card;
  }

  finish(id: number): void {
    const card = this.cards.find((card) => card.id == id);
    if (card) {
      card.done = true;
    }
  }

  open(): Card[] {
    return this.cards.filter((card) => !card.done);
  }
}
