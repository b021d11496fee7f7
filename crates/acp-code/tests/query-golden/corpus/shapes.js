class Shape {
	constructor( name, sides ) {
		this.name = name;
		this.sides = sides;
		this.label = name;
	}

	clone() {
		return new Shape( this.name, this.sides );
	}
}

class Square extends Shape {
	constructor( size ) {
		super( 'square', 4 );
		this.size = size;
		if ( size === undefined ) {
			console.warn( 'Square: no size' );
		}
	}

	area( scale ) {
		const copy = this.clone();
		const twice = [ 1, 2 ].map( ( x ) => x * 2 );
		let sum = 0;
		for ( let i = 0; i < twice.length; i ++ ) {
			sum += twice[ i ];
		}
		for ( let i = 1; i < twice.length; i ++ ) {
			sum -= twice[ i ];
		}
		return copy === undefined ? sum : this.size * this.size * scale;
	}
}

const worker = new Worker( 'shapes-worker.js' );
worker.postMessage( { shape: new Square( 3 ) }, [] );
self.postMessage( 'ready' );
const done = ( event ) => {
	console.warn( event.data, 'done' );
};
const other = shape.clone( true ), third = done.clone();
export { done, other, third };
